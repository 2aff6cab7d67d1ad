#!/bin/sh
# Process 1 of the machine: runs what /tests lists, and powers off.
# Lines that begin with `machine:` are parsed by `xtask/src/test/v2/console.rs`.
. /usr/sbin/up

# A disk with a common file system.
mke2fs -q -F -t ext4 -m 0 -E lazy_itable_init=1,nodiscard /dev/nvme0n1
busybox mount /dev/nvme0n1 /var
mkdir -m 1777 /var/tmp
mkdir -p /var/lib
mkdir -m 700 /var/user
busybox chown 54321:54321 /var/user
export TMPDIR=/var/tmp

export PINFOLD_SKIPPED_TESTS=/run/skipped
: > $PINFOLD_SKIPPED_TESTS
while read -r name program; do
    echo "machine: begin $name"
    $program --test-threads 2 < /dev/null 2>&1
    echo "machine: end $name $?"
done < /tests

# The program as root, as a user, and in a delegated cgroup. The pattern is its expected exit code and output.
check() {
    name=$1
    pattern=$2
    shift 2
    said=$("$@" 2>&1 < /dev/null)
    code=$?
    case "$code $said" in
    $pattern) echo "machine: check $name: ok" ;;
    *) printf '%s\n' "$said" "machine: check $name: failed with $code" ;;
    esac
}
as_user() {
    setpriv --reuid 54321 --regid 54321 --clear-groups env HOME=/var/user "$@"
}
# A group that was delegated to an ordinary user with all controllers, as systemd does at login.
delegated() {
    mkdir -p $root/user/shell
    for controller in $(cat $root/user/cgroup.controllers); do
        echo "+$controller" > $root/user/cgroup.subtree_control
    done
    busybox chown 54321:54321 $root/user $root/user/cgroup.procs $root/user/cgroup.subtree_control \
        $root/user/shell $root/user/shell/cgroup.procs
    (
        echo 0 > $root/user/shell/cgroup.procs
        as_user "$@"
    )
}
root_inside='7 uid=0(root) gid=0(root)*'
check "a run by root" "$root_inside" pinfold run -- sh -c 'id; exit 7'
check "a run by an ordinary user" "$root_inside" as_user pinfold run -- sh -c 'id; exit 7'
check "a run in a delegated group" "$root_inside" delegated pinfold run --memory 256 -- sh -c 'id; exit 7'
check "memory is limited in a delegated group" '137 *' delegated pinfold run --memory 64 -- tail /dev/zero
# The program reports what this kernel cannot do: here, that a tmpfs does not support idmapped mounts.
check "a data directory in memory is refused" '125 *does not support idmapped mounts*' \
    pinfold --data-dir /tmp/data run -- true
check "the doctor names an unfit data directory" '1 *does not support id-mapped mounts*' pinfold --data-dir /tmp/data doctor
check "the doctor finds this machine fit" '0 *Sandboxes can run here.' pinfold doctor
check "the doctor says what root could have" '0 *may be written to*Sandboxes can run here.' \
    as_user pinfold doctor

while read -r line; do echo "machine: skipped $line"; done < $PINFOLD_SKIPPED_TESTS
for left in $(busybox find $root -name 'pinfold*' -type d); do echo "machine: left $left"; done
echo "machine: done"
busybox poweroff -f
