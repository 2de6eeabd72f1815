# The plants: a function for each, and its line `plant NAME SECONDS FUNCTION CULPRITS`.
quota_alone() { group q 20000; spin victim q 1; }
quota_beside() { group q 10000; group h; spin victim q 1; culprit spin hog h 1; }
quota_above() { group a 20000; group a/b; spin victim a/b 1; }
quota_nested() { group a 50000; group a/b 20000; group a/c; spin victim a/b 1; culprit spin hog a/c 1; }
quota_two_tasks() { group q 30000; spin victim q 1; spin other q 1; }
quota_two_cpus() { group q 40000; spin victim q 1; spin other q 2; }
quota_short() { group q 5000 10000; spin victim q 1; }
quota_unused() { group q 90000; group h; spin victim q 1; culprit spin hog h 1; }
hog_own() { group g; spin victim g 1; culprit spin hog g 1; }
hog_other() { group v; group h; spin victim v 1; culprit spin hog h 1; }
hog_heavy() { group v; group h; weight h 4096; spin victim v 1; culprit spin hog h 1; }
hog_nested() { group a; group a/b; group a/c; group h; spin victim a/b 1; spin other a/c 1; culprit spin hog h 1; }
hogs_three() { group g; spin victim g 1; culprit spin hog g 1; culprit spin hog g 1; culprit spin hog g 1; }
hog_elsewhere() { group v; group h; spin victim v 1; culprit spin hog h 2; }
nice_task() { group g; spin victim g 1 nice -n 5; culprit spin hog g 1; }
idle_class() { group g; spin victim g 1 chrt -i 0; culprit spin hog g 1; }
real_time() {
	group v
	load hog 'while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.02; done'
	spin victim v 1
	culprit start hog - 1 chrt -f 20
}
real_time_quota() {
	group q 20000
	load hog 'while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.02; done'
	spin victim q 1
	culprit start hog - 1 chrt -f 20
}
real_time_limit() { group h; spin victim - 1 chrt -f 10; spin hog h 1; }
storm() { group g; load hog 'while :; do /bin/true; done'; spin victim g 1; culprit start hog g 1; }
moved() { group v; group h; spin victim v 1; culprit spin hog h 2; [ -n "$without" ] || (sleep 1; taskset -p 1 $LAST > /dev/null) & }
offline() { group g; spin victim g 3; spin other g 3; (sleep 0.7; echo 0 > /sys/devices/system/cpu/cpu1/online) & }

# Faults with loads of other kinds: `fault NAME` records one.
fault() {
	"fault_$1"
	record x.dat 2
	tell "$1" fault
	clear_up
}
run() { load "$1" "exec $4"; start "$1" "$2" "$3"; }
fault_unit() { group system.slice; group system.slice/backup.service 15000; run backup system.slice/backup.service 1 'gzip < /dev/zero'; }
fault_container() {
	id=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
	group docker
	group docker/$id 30000
	run web docker/$id 2 'md5sum /dev/zero'
	run web docker/$id 1 'md5sum /dev/zero'
}
fault_pinned() { group p; run sum p 1 'md5sum /dev/zero'; run sort p 1 'cksum /dev/zero'; }
fault_real_time() { group v; run copy v 1 'dd if=/dev/zero of=/dev/null bs=64k'; load audio 'while :; do dd if=/dev/zero of=/dev/null bs=64k count=2000; sleep 0.03; done'; start audio - 1 chrt -r 30; }
fault_nice() { group g; load index 'exec sha1sum /dev/zero'; start index g 1 nice -n 19; run serve g 1 'gzip < /dev/zero'; }
fault_weight() { group low; weight low 128; group high; weight high 8192; run slow low 3 'tr a b < /dev/zero'; run slow low 3 'tr a b < /dev/zero'; run fast high 1 'md5sum /dev/zero'; run fast high 2 'md5sum /dev/zero'; }
fault_storm() { group g; run reader g 1 'sha256sum /dev/zero'; load spawner 'while :; do mkdir -p /tmp; true; chmod 755 /tmp; done'; start spawner g 1; }
fault_offline() { echo 0 > /sys/devices/system/cpu/cpu1/online; group g; run sum g 3 'md5sum /dev/zero'; run zip g 3 'gzip < /dev/zero'; }
fault_starved() { group v; run control - 1 'chrt -f 40 cksum /dev/zero'; run other - 2 'chrt -f 40 cksum /dev/zero'; run log v 1 'gzip < /dev/zero'; }
fault_idle() { group g; load scrub 'exec wc -c < /dev/zero'; start scrub g 1 chrt -i 0; run sum g 1 'md5sum /dev/zero'; run zip g 1 'gzip < /dev/zero'; run other g 2 'md5sum /dev/zero'; }
