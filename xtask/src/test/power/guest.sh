#!/bin/sh
# Process 1 of the machine: finds its disk as the last power cut has left it, and runs what is told in SEED and LAST.
# Lines that begin with `power:` are for who reads the console.
. /usr/sbin/up

give_up() {
    echo "power: broken $1"
    busybox poweroff -f
}
# Without a cache of its own the disk would lose nothing, and with one the kernel has to flush it.
grep -q 'write back' /sys/block/nvme0n1/queue/write_cache || give_up "the disk has no cache to lose"
busybox mount -t ext4 /dev/nvme0n1 /var || give_up "the disk cannot be mounted"
mkdir -p /var/lib
# In its own namespace every process is accounted for.
unshare --pid --fork --mount-proc pinfold-power --pinfold /usr/local/bin/pinfold --data /var/lib/pinfold \
    --config /etc/pinfold.toml --ledger /dev/nvme0n2 --seed "$SEED" ${LAST:+--last} < /dev/null 2>&1
busybox poweroff -f
