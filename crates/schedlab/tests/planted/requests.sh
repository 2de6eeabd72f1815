# Delays planted in programs of Debian's packages as they are: `requests.sh set_up NAME`, `requests.sh run NAME`, which is
# recorded, and `requests.sh clear_up NAME`, in a folder of their own. $GROUP is a new control group of version 1 or 2.
set -u
# Some kernels log nothing of another CPU that idles, and who was on it is then not known.
CPU=0
OTHER=1
PG=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -n 1)

# Others run on that CPU with a real-time priority for 150 ms of each 200 ms: longer than any request runs.
hog() {
	exec chrt -f 20 taskset -c $CPU perl -MTime::HiRes=time,sleep -e \
		'while (1) { sleep 0.05; $end = time + 0.15; 1 while time < $end }'
}
beside_hog() { hog & hog=$!; "$@"; kill $hog; wait $hog 2> /dev/null; true; }
# 20 ms of CPU time in each 100 ms.
limit() {
	if [ -e "$GROUP/cpu.max" ]; then
		echo '20000 100000' > "$GROUP/cpu.max"
	else
		echo 100000 > "$GROUP/cpu.cfs_period_us"
		echo 20000 > "$GROUP/cpu.cfs_quota_us"
	fi
}
within_quota() { sh -c 'echo $$ > "$GROUP/cgroup.procs"; exec "$@"' sh "$@"; }

# sqlite3: a request is a step. Who finds the file locked sleeps and tries again.
SQLITE_ROWS='with recursive c(x) as (values(1) union all select x + 1 from c where x < 60000) select max(a.x) from c a'
sqlite() { for i in $(seq "$1"); do echo "$SQLITE_ROWS;"; done | taskset -c $CPU sqlite3 :memory: > /dev/null; }
set_up_sqlite_sleep() { sqlite3 file 'pragma journal_mode = memory; create table t(x)' > /dev/null; }
# The first insert reads the schema, which would wait for the lock outside of a step.
run_sqlite_sleep() {
	until_there() { while [ ! -e "$1" ]; do sleep 0.01; done; }
	(until_there warm; echo 'begin exclusive;'; echo '.shell touch begun'; until_there over; echo 'commit;') | sqlite3 file &
	insert='insert into t values(1);'
	(
		echo ".timeout 5000"; echo 'pragma synchronous = off;'; echo "$insert"
		echo '.shell touch warm; while [ ! -e begun ]; do sleep 0.01; done; (sleep 0.06; touch over) &'
		for i in $(seq 150); do echo "$insert"; done
	) > inserts
	sqlite3 file < inserts > /dev/null
	wait
}
run_sqlite_hog() { beside_hog sqlite 60; }
set_up_sqlite_quota() { limit; }
run_sqlite_quota() { echo $$ > "$GROUP/cgroup.procs"; sqlite 40; }

# python3: a request is a garbage collection, in which finalisers of objects run.
python() { taskset -c $CPU /usr/bin/python3 gc.py "$@"; }
set_up_python() {
	cat > gc.py <<- 'END'
		import gc, sys, threading, time
		gc.disable()
		how, times = sys.argv[1], int(sys.argv[2])
		lock, ready = threading.Lock(), threading.Event()
		class Node:
		    def __init__(self, does):
		        self.me, self.does = self, does
		    def __del__(self):
		        if self.does:
		            self.does()
		def hold():
		    with lock:
		        ready.set()
		        end = time.thread_time() + 0.04
		        while time.thread_time() < end:
		            pass
		def wait():
		    threading.Thread(target=hold).start()
		    ready.wait()
		    with lock:
		        pass
		does = {"sleep": lambda: time.sleep(0.04), "lock": wait}.get(how)
		for i in range(times):
		    Node(does if i == times // 2 else None)
		    junk = [Node(None) for _ in range(4000)]
		    del junk
		    gc.collect()
	END
}
set_up_python_sleep() { set_up_python; }
set_up_python_lock() { set_up_python; }
set_up_python_hog() { set_up_python; }
set_up_python_quota() { set_up_python; limit; }
run_python_sleep() { python sleep 90; }
# Two threads, so two CPUs.
run_python_lock() { /usr/bin/python3 gc.py lock 90; }
run_python_hog() { beside_hog python none 300; }
run_python_quota() { within_quota taskset -c $CPU /usr/bin/python3 gc.py none 200; }

# nginx: a request is one of HTTP. It packs a large file, or sends one slowly.
set_up_nginx() {
	mkdir -p files
	head -c 1200000 /dev/urandom | base64 > files/large
	head -c 40000 /dev/urandom | base64 > files/small
	temporary=
	for of in client_body proxy fastcgi uwsgi scgi; do temporary="$temporary ${of}_temp_path $PWD/$of;"; done
	cat > conf <<- END
		worker_processes 1; user root; pid $PWD/pid; error_log $PWD/error; events { worker_connections 64; }
		http {
		    access_log off; $temporary gzip on; gzip_types *;
		    server {
		        listen unix:$PWD/socket; root $PWD/files;
		        location = /slow { gzip off; limit_rate 300k; try_files /small =404; }
		        location = /quick { return 204; }
		    }
		}
	END
}
set_up_nginx_sleep() { set_up_nginx; }
set_up_nginx_hog() { set_up_nginx; }
set_up_nginx_quota() { set_up_nginx; limit; }
get() { curl -s -H 'Accept-Encoding: gzip' --unix-socket socket -o /dev/null "http://x/$1"; }
nginx() { taskset -c $CPU /usr/sbin/nginx -c "$PWD/conf" "$@" 2> /dev/null; }
stop_nginx() { /usr/sbin/nginx -c "$PWD/conf" -s quit 2> /dev/null; while [ -e pid ]; do sleep 0.02; done; }
gets() { for i in $(seq "$2"); do get "$1"; done; }
run_nginx_sleep() { nginx; gets quick 60; get slow; gets quick 40; stop_nginx; }
run_nginx_hog() { nginx; beside_hog gets large 25; stop_nginx; }
run_nginx_quota() { nginx; cat pid | xargs -I{} pgrep -P {} > workers; for w in $(cat workers); do echo "$w" > "$GROUP/cgroup.procs"; done; gets large 25; stop_nginx; }

# PostgreSQL: a request is a query. The server runs before the recording begins.
as_postgres() { runuser -u postgres -- "$@"; }
sql() { taskset -c $OTHER runuser -u postgres -- psql -X -q -h "$PWD" -d postgres -f "$1" > /dev/null; }
set_up_postgres() {
	chmod 755 . && mkdir data && chown postgres data .
	as_postgres "$PG/initdb" -D data --no-sync -A trust > /dev/null
	taskset -c $CPU runuser -u postgres -- "$PG/pg_ctl" -s -w -D data -l data/log -o "-k $PWD -h '' -c fsync=off" start
	echo 'create table t(x int); insert into t values(1)' > table.sql
	echo 'select pg_sleep(0.04);' > sleep.sql
	for i in $(seq 100); do echo 'select 1;'; done > quick.sql
	for i in $(seq 200); do echo 'select count(*) from generate_series(1, 40000);'; done > long.sql
	cat quick.sql sleep.sql quick.sql > with_sleep.sql
	(echo 'begin; lock table t;'; for i in $(seq 30); do echo 'select count(*) from generate_series(1, 80000);'; done; echo 'commit;') > hold.sql
	(cat quick.sql; echo 'update t set x = x + 1;'; cat quick.sql) > wait.sql
	chmod 644 ./*.sql
	sql table.sql
}
set_up_postgres_sleep() { set_up_postgres; }
set_up_postgres_lock() { set_up_postgres; }
set_up_postgres_hog() { set_up_postgres; }
set_up_postgres_quota() { set_up_postgres; limit; }
clear_up_postgres() { as_postgres "$PG/pg_ctl" -s -D data -m immediate stop; }
clear_up_postgres_sleep() { clear_up_postgres; }
clear_up_postgres_lock() { clear_up_postgres; }
clear_up_postgres_hog() { clear_up_postgres; }
clear_up_postgres_quota() { clear_up_postgres; }
run_postgres_sleep() { sql with_sleep.sql; }
run_postgres_lock() { sql hold.sql & sleep 0.06; sql wait.sql; wait; }
run_postgres_hog() { beside_hog sql long.sql; }
run_postgres_quota() {
	for p in $(head -n 1 data/postmaster.pid) $(pgrep -P "$(head -n 1 data/postmaster.pid)"); do echo "$p" > "$GROUP/cgroup.procs"; done
	sql long.sql
}

if [ "$(type -t "$1_$2")" = function ]; then "$1_$2"; fi
