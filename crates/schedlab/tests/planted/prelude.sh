# What plants are made of. TOP: a control group of their own; V: version of control groups; DIR: a folder;
# SCHEDLAB: the program. POSIX sh, with taskset and chrt of util-linux.
ALL= MADE=

# group NAME [QUOTA_US [PERIOD_US]]: a group, and what it may use of each period.
group() {
	d=$TOP/$1
	if [ "$V" = 2 ]; then echo +cpu > "${d%/*}/cgroup.subtree_control"; fi
	mkdir "$d"
	MADE="$d $MADE"
	[ -n "${2-}" ] || return 0
	if [ "$V" = 1 ]; then
		echo "${3-100000}" > "$d/cpu.cfs_period_us"
		echo "$2" > "$d/cpu.cfs_quota_us"
	else
		echo "$2 ${3-100000}" > "$d/cpu.max"
	fi
}

# weight NAME SHARES: 1024 is the default.
weight() {
	if [ "$V" = 1 ]; then echo "$2" > "$TOP/$1/cpu.shares"; else echo $(($2 * 100 / 1024)) > "$TOP/$1/cpu.weight"; fi
}

# load NAME BODY: a program of this name.
load() {
	printf '#!/bin/sh\n%s\n' "$2" > "$DIR/$1"
	chmod +x "$DIR/$1"
}

# start NAME GROUP MASK [PREFIX...]: starts it in a group (- is none) on these CPUs.
start() {
	what=$DIR/$1 where=$2 mask=$3
	shift 3
	(
		if [ "$where" != - ]; then echo 0 > "$TOP/$where/cgroup.procs"; fi
		exec setsid taskset "$mask" "$@" "$what" > /dev/null 2>&1
	) &
	ALL="$ALL $!"
	LAST=$!
}

# spin NAME GROUP MASK [PREFIX...]: starts one that only computes.
spin() {
	load "$1" 'while :; do :; done'
	start "$@"
}

# record FILE SECONDS
record() {
	sleep 0.5
	"$SCHEDLAB" record --time "$2s" -o "$DIR/$1" > /dev/null 2> "$DIR/record.txt" || cat "$DIR/record.txt" >&2
}

# Ends what runs, and removes the groups.
clear_up() {
	for pid in $ALL; do kill -KILL "-$pid" 2> /dev/null; done
	wait 2> /dev/null
	for d in $MADE; do
		for try in 1 2 3 4 5 6 7 8 9; do rmdir "$d" 2> /dev/null && break; sleep 0.1; done
	done
	[ ! -w /sys/devices/system/cpu/cpu1/online ] || echo 1 > /sys/devices/system/cpu/cpu1/online 2> /dev/null
	ALL= MADE=
}

# tell PLANT PART: the recording as text.
tell() {
	echo "@@ $1 $2"
	gzip -c "$DIR/x.dat" | base64
	echo "@end"
}

# plant NAME SECONDS SETUP CULPRITS: sets up, records; without the culprits, records again.
plant() {
	"$3"
	record x.dat "$2"
	tell "$1" with
	clear_up
	if [ -n "$4" ]; then
		without=$4
		"$3"
		record x.dat "$2"
		tell "$1" without
		clear_up
		without=
	fi
}

# culprit FUNCTION ARGUMENTS: not if the culprits are taken out.
without=
culprit() {
	if [ -z "$without" ]; then "$@"; fi
}
