# Makes the machine a host with nothing but cgroup v2. Read by its first program before anything else.
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox mkdir -p /dev/pts /dev/shm
busybox mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
busybox mount -t tmpfs -o mode=1777 shm /dev/shm
busybox mkdir -p -m 1777 /tmp
busybox chmod 1777 /tmp
busybox mount -t tmpfs -o mode=755 run /run
busybox mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
for module in /modules/*.ko; do busybox insmod "$module"; done
busybox ip link set lo up

# As on a user's machine, no process but the kernel's is in the root cgroup.
root=/sys/fs/cgroup
mkdir $root/system
echo $$ > $root/system/cgroup.procs
