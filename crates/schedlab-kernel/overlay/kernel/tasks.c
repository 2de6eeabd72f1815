// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tasks: how they are made, what a task of the load does in the kernel, and what is told of all of them.
 */
#include <linux/version.h>
#include <linux/cgroup.h>
#include <linux/cpuset.h>
#include <linux/hrtimer.h>
#include <linux/init_task.h>
#include <linux/kthread.h>
#include <linux/psi.h>
#include <linux/sched/autogroup.h>
#include <linux/sched/cputime.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/task_work.h>
#include <uapi/linux/sched/types.h>
#include "sched.h"
#include <trace/events/sched.h>
#include "board.h"

struct schedlab_task {
	struct task_struct task __aligned(64);
	/* The load's name of the task, unless it is a thread of the kernel. */
	u64 name;
	int (*work)(void *);
	void *of;
	struct schedlab_task *next;
	/* Whether somebody cut its wait short. */
	bool cut;
	/* Time on the CPU that the kernel charged nobody for, since the task was switched to. */
	u64 lost;
};

/* The most tasks of a load. */
#define LOAD_MAX (1 << 20)
static struct schedlab_task **load;
/* Threads of the kernel, which stay. */
static struct schedlab_task *threads;
/* Tasks by their pids, until they are gone. */
#define PIDS_MAX (LOAD_MAX + (1 << 16))
static struct task_struct **tasks;
static int next_pid = 1;

static struct schedlab_task *own(struct task_struct *task)
{
	return container_of(task, struct schedlab_task, task);
}

static u64 name_of(struct task_struct *task)
{
	if (is_idle_task(task) || task == &init_task)
		return NOBODY;
	return task->flags & PF_KTHREAD ? THREADS | task->pid : own(task)->name;
}

/* ---- control groups: only the controller of CPUs has a state for each ---- */

#define GROUPS_MAX 4096
static struct css_set *sets[GROUPS_MAX];
static int groups;

/* The controller cpuacct is not one of cgroup v2: there all groups have the state of its root, and ticks read it. */
static void account_at_root(struct css_set *set)
{
#ifdef CONFIG_CGROUP_CPUACCT
	set->subsys[cpuacct_cgrp_id] = cpuacct_cgrp_subsys.css_alloc(NULL);
#endif
}

#ifdef CONFIG_PSI
/* Groups keep their own pressure, as without cgroup_disable=pressure. */
bool cgroup_psi_enabled(void)
{
	return true;
}
#endif

/* A place in the hierarchy. Only the accounting of pressure looks there: it knows the root by its number, which is 1. */
static struct cgroup *new_cgroup(struct cgroup *above)
{
	struct cgroup *made = schedlab_take(sizeof(*made));
#ifdef CONFIG_PSI
	static int made_before;

	made->kn = schedlab_take(sizeof(*made->kn));
	made->kn->id = ++made_before;
	made->self.parent = above ? &above->self : NULL;
	if (above && psi_cgroup_alloc(made))
		schedlab_stop("a group has no memory for its pressure");
#endif
	return made;
}

static struct css_set *new_set(struct cgroup_subsys_state *state, struct css_set *above)
{
	struct css_set *set = schedlab_take(sizeof(*set));

	set->subsys[cpu_cgrp_id] = state;
	account_at_root(set);
	set->dfl_cgrp = new_cgroup(above->dfl_cgrp);
	return set;
}

static int new_group(int parent)
{
	struct cgroup_subsys_state *above = sets[parent]->subsys[cpu_cgrp_id], *state;

	if (groups + 1 >= GROUPS_MAX)
		return -ENOSPC;
	state = cpu_cgrp_subsys.css_alloc(above);
	if (IS_ERR(state))
		return PTR_ERR(state);
	state->ss = &cpu_cgrp_subsys;
	state->parent = above;
	state->cgroup = schedlab_take(sizeof(struct cgroup));
	state->flags = CSS_ONLINE;
	if (cpu_cgrp_subsys.css_online(state))
		return -ENOMEM;
	sets[++groups] = new_set(state, sets[parent]);
	return groups;
}

/* Writes to a file of a group, by the file's own function. */
static int write_group(int group, const char *name, char *text)
{
	struct cftype *tables[] = { cpu_cgrp_subsys.dfl_cftypes, cpu_cgrp_subsys.legacy_cftypes };
	struct cgroup_subsys_state *state = sets[group]->subsys[cpu_cgrp_id];
	int table;

	for (table = 0; table < ARRAY_SIZE(tables); table++) {
		struct cftype *file = tables[table];
		long long value;

		for (; file && file->name[0]; file++) {
			if (strcmp(file->name, name))
				continue;
			if (!file->write_u64 && !file->write_s64)
				continue;
			if (kstrtoll(text, 0, &value))
				return -EINVAL;
			return file->write_u64 ? file->write_u64(state, file, value)
					       : file->write_s64(state, file, value);
		}
	}
	return -ENOENT;
}

/* ---- making tasks ---- */

static struct schedlab_task *copy_task(u64 name)
{
	struct schedlab_task *made = schedlab_take(sizeof(*made));
	struct task_struct *task = &made->task;

	*task = init_task;
	made->name = name;
	task->flags &= ~(PF_IDLE | PF_NO_SETAFFINITY | PF_KTHREAD);
	if (next_pid >= PIDS_MAX)
		schedlab_stop("there are more than %d tasks", PIDS_MAX);
	tasks[next_pid] = task;
	task->pid = task->tgid = next_pid++;
	refcount_set(&task->usage, 2);
	task->cpus_ptr = &task->cpus_mask;
	task->user_cpus_ptr = NULL;
	cpumask_copy(&task->cpus_mask, cpu_possible_mask);
	task->nr_cpus_allowed = schedlab_cpus;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 17, 0)
	task->worker_private = NULL;
#else
	task->set_child_tid = NULL;
#endif
	task->group_leader = task;
	task->timer_slack_ns = task->default_timer_slack_ns = 50000;
	task->start_time = task->start_boottime = schedlab_now();
	task->utime = task->stime = task->gtime = 0;
	task->nvcsw = task->nivcsw = 0;
	task->pi_waiters = RB_ROOT_CACHED;
	task->pi_top_task = NULL;
	task->pi_blocked_on = NULL;
	raw_spin_lock_init(&task->pi_lock);
	spin_lock_init(&task->alloc_lock);
	INIT_LIST_HEAD(&task->tasks);
	INIT_LIST_HEAD(&task->children);
	INIT_LIST_HEAD(&task->sibling);
	/* Each is a process. */
	task->signal = schedlab_take(sizeof(*task->signal));
	*task->signal = *init_task.signal;
	task->signal->nr_threads = 1;
	INIT_LIST_HEAD(&task->signal->thread_head);
	INIT_LIST_HEAD(&task->thread_node);
	list_add_tail(&task->thread_node, &task->signal->thread_head);
#ifdef CONFIG_SCHED_AUTOGROUP
	if (current->signal->autogroup)
		sched_autogroup_fork(task->signal);
#endif
	return made;
}

/* What kernel_clone does of scheduling before the child is woken. */
static void fork_scheduling(struct schedlab_task *made, int group)
{
	struct task_struct *task = &made->task;
	struct kernel_clone_args arguments = { .cset = sets[group] };

	rcu_assign_pointer(task->cgroups, sets[group]);
	if (sched_fork(0, task))
		schedlab_stop("sched_fork refused '%s'", task->comm);
	/* A load begins as an ordinary process. */
	task->static_prio = task->prio = task->normal_prio = NICE_TO_PRIO(0);
	task->policy = SCHED_NORMAL;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	if (sched_cgroup_fork(task, &arguments))
		schedlab_stop("sched_cgroup_fork refused '%s'", task->comm);
#else
	sched_cgroup_fork(task, &arguments);
#endif
	sched_post_fork(task);
}

/* Before Linux 5.17 threads do this for themselves, and init_idle does it. */
static void become_thread(struct task_struct *task)
{
	task->flags |= PF_KTHREAD;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 17, 0)
	set_kthread_struct(task);
#endif
}

static void arrive(void);

static void first_of_thread(struct task_struct *from)
{
	struct schedlab_task *self = own(current);

	schedule_tail(from);
	local_irq_enable();
	do_exit(self->work(self->of));
}

static void first_of_load(struct task_struct *from)
{
	schedule_tail(from);
	local_irq_enable();
	arrive();
	schedlab_become_user();
}

struct task_struct *schedlab_thread(int (*work)(void *), void *of, const char *name)
{
	struct schedlab_task *made = copy_task(0);
	struct task_struct *task = &made->task;

	made->work = work;
	made->of = of;
	become_thread(task);
	strscpy(task->comm, name, sizeof(task->comm));
	schedlab_new_stack(task, first_of_thread);
	fork_scheduling(made, 0);
	if (work == kthreadd)
		kthreadd_task = task;
	made->next = threads;
	threads = made;
	wake_up_new_task(task);
	return task;
}

/* The pid and the name of each thread, in three words. */
static u64 list_threads(void)
{
	struct schedlab_task *thread;
	u64 *to = board->data;

	for (thread = threads; thread && to + 3 <= board->data + BOARD_DATA; thread = thread->next) {
		to[0] = thread->task.pid;
		memcpy(to + 1, thread->task.comm, 16);
		to += 3;
	}
	return (to - board->data) / 3;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
pid_t kernel_thread(int (*work)(void *), void *of, const char *name, unsigned long flags)
{
	return schedlab_thread(work, of, name ?: "kthread")->pid;
}
#else
pid_t kernel_thread(int (*work)(void *), void *of, unsigned long flags)
{
	return schedlab_thread(work, of, "kthread")->pid;
}
#endif

struct task_struct *fork_idle(int cpu)
{
	struct schedlab_task *made = copy_task(NOBODY);
	struct task_struct *task = &made->task;

	tasks[--next_pid] = NULL;
	task->pid = task->tgid = 0;
	become_thread(task);
	fork_scheduling(made, 0);
	init_idle(task, cpu);
	return task;
}

struct task_struct *schedlab_task_of_pid(s32 pid)
{
	return pid > 0 && pid < PIDS_MAX ? tasks[pid] : NULL;
}

/* Nobody waits for a dead task: it is gone when it has left its CPU. */
void put_task_struct_rcu_user(struct task_struct *task)
{
	tasks[task->pid] = NULL;
	schedlab_forget(task);
}

struct sighand_struct *__lock_task_sighand(struct task_struct *task, unsigned long *flags)
{
	spin_lock_irqsave(&task->sighand->siglock, *flags);
	return task->sighand;
}
ALSO(__lock_task_sighand, lock_task_sighand);

void do_exit(long code)
{
	/* As the kernel's do_exit, which is not a part of the image. */
	preempt_disable();
	do_task_dead();
}

void __set_task_comm(struct task_struct *task, const char *name, bool exec)
{
	strscpy(task->comm, name, sizeof(task->comm));
}

/* ---- what tasks of the load do ---- */

static struct task_struct *find(u64 name)
{
	if (name >= LOAD_MAX || !load[name])
		schedlab_stop("there is no task %llu", name);
	return &load[name]->task;
}

void schedlab_wake(u64 name, bool sync, bool signal)
{
	struct task_struct *task = find(name);

	if (signal) {
		load[name]->cut = true;
		set_tsk_thread_flag(task, TIF_SIGPENDING);
	}
	if (sync)
		default_wake_function(&(wait_queue_entry_t) { .private = task }, TASK_NORMAL, WF_SYNC, NULL);
	else
		wake_up_process(task);
}

static void fork_child(u64 name, int group)
{
	struct schedlab_task *made = copy_task(name);

	if (name >= LOAD_MAX)
		schedlab_stop("a load has at most %d tasks", LOAD_MAX);
	load[name] = made;
	memcpy(made->task.comm, &board->arguments[2], TASK_COMM_LEN);
	made->task.comm[TASK_COMM_LEN - 1] = 0;
	schedlab_new_stack(&made->task, first_of_load);
	fork_scheduling(made, group);
}

/* Which CPUs a task may use, as words of 64. */
static int set_cpus(struct task_struct *task)
{
	static struct cpumask mask;
	int cpu;

	cpumask_clear(&mask);
	for (cpu = 0; cpu < schedlab_cpus; cpu++)
		if (board->data[cpu / 64] >> cpu % 64 & 1)
			cpumask_set_cpu(cpu, &mask);
	return set_cpus_allowed_ptr(task, &mask);
}

/* Policy, nice value, priority, runtime or slice, deadline, period; the timer's slack; whether CPUs follow. */
static int set_attributes(struct task_struct *task, u64 *from)
{
	struct sched_attr attributes = {
		.size = sizeof(attributes),
		.sched_policy = from[0],
		.sched_nice = (s64)from[1],
		.sched_priority = from[2],
		.sched_runtime = from[3],
		.sched_deadline = from[4],
		.sched_period = from[5],
	};
	int result = sched_setattr_nocheck(task, &attributes);

	if (!result && task_has_dl_policy(task) == 0 && !rt_task(task))
		task->timer_slack_ns = from[6];
	if (!result && from[7])
		result = set_cpus(task);
	return result;
}

/* Attributes lie behind the mask of CPUs. */
#define ATTRIBUTES (board->data + BOARD_CPUS / 64)

static s64 born(void)
{
	u64 name = board->arguments[0];
	s64 result;

	fork_child(name, board->arguments[1]);
	result = set_attributes(find(name), ATTRIBUTES);
	wake_up_new_task(find(name));
	return result;
}

/* What a task has put off until it goes back to user space: newer kernels throttle it there. */
static bool work_off(void)
{
	if (!test_thread_flag(TIF_NOTIFY_RESUME))
		return false;
	clear_thread_flag(TIF_NOTIFY_RESUME);
	task_work_run();
	return true;
}

static void leave(void)
{
	schedlab_settle_own();
	do {
		while (need_resched())
			schedule();
	} while (work_off());
}

static void interrupted(void)
{
	bool user = board->arguments[2];

	schedlab_interrupt(board->arguments[0]);
	if (user) {
		leave();
		return;
	}
#ifdef CONFIG_PREEMPTION
	if (!preempt_count() && need_resched()) {
		local_irq_disable();
		preempt_schedule_irq();
		local_irq_enable();
	}
#endif
}

/* What a task does before it may have to give way. */
static s64 perform_at_once(u64 call, u64 *of)
{
	switch (call) {
	case CALL_WAKE:
		schedlab_wake(of[0], of[1], of[2]);
		return 0;
	case CALL_FORK:
		return born();
	case CALL_THREADS:
		return list_threads();
	case CALL_KNOBS:
		return schedlab_list_knobs();
	case CALL_GROUP:
		return new_group(of[0]);
	default:
		schedlab_stop("there is no call %llu", call);
	}
}

/* What may wait. */
static s64 perform_and_wait(u64 call, u64 *of)
{
	switch (call) {
	case CALL_SLEEP:
		set_current_state(TASK_INTERRUPTIBLE);
		schedule();
		return 0;
	case CALL_SLEEP_UNTIL:
		return hrtimer_nanosleep(of[0], HRTIMER_MODE_ABS, CLOCK_MONOTONIC);
	case CALL_YIELD:
		yield();
		return 0;
	case CALL_EXIT:
#ifdef CONFIG_SCHED_AUTOGROUP
		/* A task that exits goes back to the root's group (do_exit). */
		if (schedlab_session) {
			current->flags |= PF_EXITING;
			sched_autogroup_exit_task(current);
		}
#endif
		do_exit(0);
	case CALL_LEAVE:
		leave();
		return 0;
	case CALL_SET:
		return set_attributes(find(of[0]), ATTRIBUTES);
	case CALL_KNOB_SET:
		return schedlab_set_knob((char *)board->data, (char *)board->data + 256);
	case CALL_GROUP_SET:
		return write_group(of[0], (char *)board->data, (char *)board->data + 256);
	default:
		/*
		 * What happens between two ways out happens at once: preemption waits for the way out, also where
		 * the kernel offers it (might_resched), which preempt_disable() prevents in kernels that count alone.
		 */
		__preempt_count_add(PREEMPT_OFFSET);
		board->result = perform_at_once(call, of);
		schedlab_settle_own();
		__preempt_count_sub(PREEMPT_OFFSET);
		return board->result;
	}
}

static void perform(void)
{
	struct schedlab_task *self = own(current);
	u64 entered = schedlab_entered;
	s64 result;

	if (board->call == CALL_INTERRUPT) {
		interrupted();
		return;
	}
	/* The machine has come up, and other CPUs still send what they have to send. */
	if (board->call == CALL_BOOT) {
		schedlab_interrupt(0);
		leave();
		return;
	}
	result = perform_and_wait(board->call, board->arguments);
	if (self->cut) {
		self->cut = false;
		clear_thread_flag(TIF_SIGPENDING);
	}
	/* Meanwhile others may have been asked for something. */
	if (entered == schedlab_entered)
		board->result = result;
}

/*
 * The way out to user space of a task that got its CPU meanwhile. Who had it before may have sent the CPU an
 * interrupt while it chose this task, and that comes first.
 */
static void arrive(void)
{
	while (schedlab_sent_own() || work_off()) {
		schedlab_settle_own();
		if (need_resched())
			schedule();
	}
}

/* The life of a task of the load: the world says what it does next. */
void schedlab_become_user(void)
{
	for (;;) {
		schedlab_to_host();
		perform();
		arrive();
	}
}

/* ---- what is told: the kernel's tracepoints ---- */

static void tell_task(u64 kind, struct task_struct *task, u64 more)
{
	struct board_record_ *record = schedlab_record(kind);

	record->task = name_of(task);
	record->more = more;
	record->prio = task->prio;
}

static void on_waking(void *unused, struct task_struct *task)
{
	tell_task(RECORD_WAKING, task, task_cpu(task));
}

static void on_wakeup(void *unused, struct task_struct *task)
{
	tell_task(RECORD_WAKEUP, task, task_cpu(task));
}

static void on_wakeup_new(void *unused, struct task_struct *task)
{
	tell_task(RECORD_WAKEUP_NEW, task, task_cpu(task));
}

static void on_migrate(void *unused, struct task_struct *task, int to)
{
	struct board_record_ *record = schedlab_record(RECORD_MIGRATE);

	record->task = name_of(task);
	record->other = task_cpu(task);
	record->more = to;
	record->prio = task->prio;
}

/* How the task left: the state in the low bits, bit 32 if it was preempted. */
static void on_switch(void *unused, bool preempt, struct task_struct *prev, struct task_struct *next,
		      unsigned int state)
{
	struct board_record_ *record = schedlab_record(RECORD_SWITCH);

	record->task = name_of(prev);
	record->other = name_of(next);
	record->more = state | (u64)preempt << 32;
	record->prio = (u32)prev->prio | (u64)(u32)next->prio << 32;
	record->ran = prev->se.sum_exec_runtime;
	record->until = prev->se.exec_start;
	if (record->task != NOBODY) {
		record->until -= own(prev)->lost;
		own(prev)->lost = 0;
	}
	record->since = next->se.exec_start;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 18, 0)
static void on_old_switch(void *unused, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	on_switch(unused, preempt, prev, next, READ_ONCE(prev->__state));
}
#define on_switch on_old_switch
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
/*
 * Linux 6.12 takes the task that leaves for the idle task while newidle balancing pulls another one: if the
 * CPU's clock was behind (rq_clock_skip_update), the time up to now counts as idle time of the fair server.
 * The linker leads calls here (--wrap).
 */
void __real_dl_server_update_idle_time(struct rq *rq, struct task_struct *task);

void __wrap_dl_server_update_idle_time(struct rq *rq, struct task_struct *task)
{
	u64 before = task->se.exec_start;

	__real_dl_server_update_idle_time(rq, task);
	if (name_of(task) != NOBODY)
		own(task)->lost += task->se.exec_start - before;
}
#endif

static void on_poll(void *unused, int cpu)
{
	schedlab_send(cpu, IRQ_POLLED);
}

void schedlab_watch(void)
{
	int wrong = register_trace_sched_waking(on_waking, NULL);

	wrong |= register_trace_sched_wakeup(on_wakeup, NULL);
	wrong |= register_trace_sched_wakeup_new(on_wakeup_new, NULL);
	wrong |= register_trace_sched_migrate_task(on_migrate, NULL);
	wrong |= register_trace_sched_switch(on_switch, NULL);
	wrong |= register_trace_sched_wake_idle_without_ipi(on_poll, NULL);
	if (wrong)
		schedlab_stop("a tracepoint of the scheduler cannot be used");
}

/* The kernel lowers what it found with time (update_newidle_cost). */
u64 schedlab_newidle_cost(void)
{
	struct sched_domain *domain;
	u64 most = 0;
	int cpu;

	for_each_online_cpu(cpu)
		for_each_domain(cpu, domain)
			most = max_t(u64, most, domain->max_newidle_lb_cost);
	return most;
}

void schedlab_boot_tasks(void)
{
	load = schedlab_take(LOAD_MAX * sizeof(*load));
	tasks = schedlab_take(PIDS_MAX * sizeof(*tasks));
	root_task_group.css.ss = &cpu_cgrp_subsys;
	root_task_group.css.cgroup = schedlab_take(sizeof(struct cgroup));
	sets[0] = &init_css_set;
	init_css_set.subsys[cpu_cgrp_id] = &root_task_group.css;
	account_at_root(&init_css_set);
	init_css_set.dfl_cgrp = new_cgroup(NULL);
	rcu_assign_pointer(init_task.cgroups, &init_css_set);
	schedlab_watch();
}
