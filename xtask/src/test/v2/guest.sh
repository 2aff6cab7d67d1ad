#!/bin/sh
# Process 1 of the machine: makes it a host with nothing but cgroup v2, runs what /tests lists, and powers off.
# Lines that begin with `machine:` are for who reads the console.
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox mkdir -p /dev/pts /dev/shm
busybox mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
busybox mount -t tmpfs -o mode=1777 shm /dev/shm
busybox mount -t tmpfs -o mode=1777 tmp /tmp
busybox mount -t tmpfs -o mode=755 run /run
busybox mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
for module in /modules/*.ko; do busybox insmod "$module"; done
busybox ip link set lo up
# A disk such as users have: before Linux 6.6 a tmpfs cannot hold what marks a layer's directories.
busybox truncate -s 600M /run/disk
mke2fs -q -F -t ext4 -m 0 -E lazy_itable_init=1,nodiscard /run/disk
busybox mount -o loop /run/disk /disk
busybox chmod 1777 /disk
export TMPDIR=/disk

# As on a user's machine, nobody but the kernel is in the root group.
root=/sys/fs/cgroup
mkdir $root/system
echo $$ > $root/system/cgroup.procs

export PINFOLD_SKIPPED_TESTS=/run/skipped
: > $PINFOLD_SKIPPED_TESTS
while read -r name program; do
    echo "machine: begin $name"
    $program --test-threads 4 < /dev/null 2>&1
    echo "machine: end $name $?"
done < /tests

# The program itself, as those who may do different things: each time it must say who it is and hand on the code.
check() {
    name=$1
    shift
    said=$("$@" < /dev/null 2>&1)
    code=$?
    case "$code $said" in
    "7 uid=0(root) gid=0(root)"*) echo "machine: check $name ok" ;;
    *)
        echo "$said"
        echo "machine: check $name failed with $code"
        ;;
    esac
}
as_somebody() {
    (cd /home/somebody && exec setpriv --reuid 54321 --regid 54321 --clear-groups env HOME=/home/somebody "$@")
}
# A group that was handed to somebody with all controllers, as systemd hands one to who logs in.
delegated() {
    mkdir -p $root/user/shell
    for controller in $(cat $root/user/cgroup.controllers); do
        echo "+$controller" > $root/user/cgroup.subtree_control
    done
    busybox chown 54321:54321 $root/user $root/user/cgroup.procs $root/user/cgroup.subtree_control \
        $root/user/shell $root/user/shell/cgroup.procs
    sh -c "echo \$\$ > $root/user/shell/cgroup.procs && exec \"\$@\"" sh "$@"
}
check "a run by root" pinfold run -- sh -c 'id; exit 7'
check "a run by an ordinary user" as_somebody pinfold run -- sh -c 'id; exit 7'
check "a limited run in a delegated group" delegated setpriv --reuid 54321 --regid 54321 --clear-groups \
    env HOME=/home/somebody pinfold run --memory 256 -- sh -c 'id; exit 7'

while read -r line; do echo "machine: skipped $line"; done < $PINFOLD_SKIPPED_TESTS
for left in $(busybox find $root -name 'pinfold*' -type d); do echo "machine: left $left"; done
echo "machine: done"
busybox poweroff -f
