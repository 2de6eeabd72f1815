// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The simulated machine: CPUs that take turns on one host thread, their clocks, interrupts between them,
 * and how they share hardware.
 *
 * Each task has a stack of its own, so the kernel's code waits where it waits on a machine. A CPU gives
 * control back to the host in user mode and when it idles, never with a lock held.
 */
#include <linux/version.h>
#include <linux/clockchips.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/cpuset.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/init_task.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/magic.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/sched/idle.h>
#include <linux/sched/init.h>
#include <linux/sched/autogroup.h>
#include <linux/sched/isolation.h>
#include <linux/sched/loadavg.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/sizes.h>
#include <linux/smp.h>
#include <linux/tick.h>
#include <linux/timekeeping.h>
#include <asm/irq_regs.h>
#ifdef CONFIG_PARAVIRT
#include <asm/paravirt.h>
#endif
#include <asm/topology.h>
#include "smpboot.h"
#include "board.h"

#define STACK_BYTES 32768
/* The last word of a stack: if it changes, the stack was too small. The kernel may look for its own word. */
#define CANARY STACK_END_MAGIC

struct board *board;
/* How often the image was entered. */
u64 schedlab_entered;
int schedlab_cpus;
int schedlab_cpu;
unsigned long schedlab_offset;
unsigned long schedlab_irqs_off = ARCH_IRQ_DISABLED;
struct task_struct *schedlab_current = &init_task;
unsigned long __per_cpu_offset[NR_CPUS];
unsigned long schedlab_capacity[NR_CPUS];
struct schedlab_place schedlab_places[NR_CPUS];

static struct {
	struct task_struct *task;
	unsigned long stack_pointer, irqs_off;
	/* Interrupts that the CPU sent to itself. */
	u64 own;
	bool touched;
	struct clock_event_device clock;
} cpus[NR_CPUS];

static unsigned long host_stack;
/* Basic blocks of the kernel that ran so far, and when the image was entered. */
u64 schedlab_blocks;
static u64 blocks_before;
/* Time that passed in this call without code. */
static u64 waited;
static struct task_struct *switched_from;
static bool booted, idle_polls;
/* Whether the load is a session: a process group that has a scheduling group of its own. */
bool schedlab_session;


/* ---- stacks ---- */

asm(".text\n"
    ".globl schedlab_change_stack\n"
    "schedlab_change_stack:\n"
    "	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
    "	mov %rsp, (%rdi)\n"
    "	mov %rsi, %rsp\n"
    "	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n"
    "	ret\n");
void schedlab_change_stack(unsigned long *from, unsigned long to);

/* A new task's first function lies in a register that the change of stacks restores. */
asm(".text\n"
    "schedlab_first:\n"
    "	mov %rbx, %rdi\n"
    "	call schedlab_begin\n");
extern char schedlab_first[];

void schedlab_begin(void (*first)(struct task_struct *from))
{
	first(switched_from);
	schedlab_stop("a task returned from its first function");
}

void schedlab_new_stack(struct task_struct *task, void (*first)(struct task_struct *from))
{
	unsigned long *low = schedlab_take(STACK_BYTES);
	unsigned long *top = (void *)low + STACK_BYTES - 64;

	*low = CANARY;
	task->stack = low;
	*--top = 0;
	*--top = (unsigned long)schedlab_first;
	/* rbp, rbx, r12 to r15 */
	top -= 6;
	memset(top, 0, 6 * sizeof(*top));
	top[4] = (unsigned long)first;
	task->thread.stack_pointer = (unsigned long)top;
}

struct task_struct *schedlab_switch_to(struct task_struct *prev, struct task_struct *next)
{
	if (*(unsigned long *)prev->stack != CANARY)
		schedlab_stop("the stack of '%s' overflowed", prev->comm);
	schedlab_current = next;
	cpus[schedlab_cpu].task = next;
	switched_from = prev;
	schedlab_change_stack(&prev->thread.stack_pointer, next->thread.stack_pointer);
	return switched_from;
}

/* The compiler calls this at the begin of each basic block. */
asm(".text\n"
    ".globl __sanitizer_cov_trace_pc\n"
    "__sanitizer_cov_trace_pc:\n"
    "	incq schedlab_blocks(%rip)\n"
    "	ret\n");

/* ---- the way in and out ---- */

static void tell(int cpu)
{
	if (cpus[cpu].touched)
		return;
	cpus[cpu].touched = true;
	board->touched_cpus[board->touched++] = cpu;
}

static void run(int cpu)
{
	schedlab_cpu = cpu;
	schedlab_offset = __per_cpu_offset[cpu];
	schedlab_current = cpus[cpu].task;
	schedlab_irqs_off = cpus[cpu].irqs_off;
	schedlab_change_stack(&host_stack, cpus[cpu].stack_pointer);
}

void schedlab_to_host(void)
{
	int cpu = schedlab_cpu;

	cpus[cpu].irqs_off = schedlab_irqs_off;
	board->cpus[cpu].resched = need_resched();
	schedlab_change_stack(&cpus[cpu].stack_pointer, host_stack);
}

/* Ends the run for good: whoever called has gone wrong. */
void schedlab_give_up(void)
{
	unsigned long *frame = __builtin_frame_address(0);

	board->stopped = 1;
	schedlab_tell_scheduler();
	while (board->traced < BOARD_TRACE && frame[1]) {
		board->trace[board->traced++] = frame[1];
		if ((unsigned long *)frame[0] <= frame || frame[0] - (unsigned long)frame > STACK_BYTES)
			break;
		frame = (unsigned long *)frame[0];
	}
	for (;;) {
		unsigned long unused;

		schedlab_change_stack(&unused, host_stack);
	}
}

void schedlab_stop(const char *format, ...)
{
	char text[512];
	va_list of;

	va_start(of, format);
	vsnprintf(text, sizeof(text), format, of);
	va_end(of);
	schedlab_print(text);
	schedlab_print("\n");
	schedlab_give_up();
	__builtin_unreachable();
}

void schedlab_deadlock(void *lock)
{
	schedlab_stop("CPU %d waits for a lock that is held: %px", schedlab_cpu, lock);
}

struct board_record_ *schedlab_record(u64 kind)
{
	static struct board_record_ unheard;
	struct board_record_ *record = &board->record[board->records];
	u64 context = in_hardirq() ? IN_HARDIRQ : in_serving_softirq() ? IN_SOFTIRQ : IN_TASK;

	if (!booted)
		return &unheard;
	if (++board->records >= BOARD_RECORDS)
		schedlab_stop("one call made more than %d records", BOARD_RECORDS);
	record->kind = kind | context << 8;
	record->cpu = schedlab_cpu;
	record->at = schedlab_now() - board->now;
	return record;
}

/* ---- time ---- */

u64 schedlab_now(void)
{
	board->passed = (schedlab_blocks - blocks_before) * board->code_1000 / 1000 + waited;
	return board->now + board->passed;
}

unsigned long long notrace sched_clock(void)
{
	return schedlab_now();
}

ktime_t ktime_get(void)
{
	return schedlab_now();
}

ktime_t ktime_get_with_offset(enum tk_offsets offset)
{
	return schedlab_now();
}

u64 ktime_get_mono_fast_ns(void)
{
	return schedlab_now();
}

ktime_t ktime_get_update_offsets_now(unsigned int *changed, ktime_t *real, ktime_t *boot, ktime_t *tai)
{
	*real = *boot = *tai = 0;
	*changed = 1;
	return schedlab_now();
}

void ktime_get_real_ts64(struct timespec64 *to)
{
	*to = ns_to_timespec64(schedlab_now());
}

int timekeeping_valid_for_hres(void)
{
	return 1;
}

u64 timekeeping_max_deferment(void)
{
	return KTIME_MAX;
}

#ifdef CONFIG_PARAVIRT
struct static_key paravirt_steal_enabled, paravirt_steal_rq_enabled;

u64 paravirt_steal_clock(int cpu)
{
	return board->cpus[cpu].stolen;
}
#endif

void do_timer(unsigned long ticks)
{
	jiffies_64 += ticks;
	calc_global_load();
}

static int set_clock(ktime_t at, struct clock_event_device *clock)
{
	board->cpus[schedlab_cpu].next_event = at;
	tell(schedlab_cpu);
	return 0;
}

static int set_clock_after(unsigned long time, struct clock_event_device *clock)
{
	return set_clock(schedlab_now() + time, clock);
}

static int stop_clock(struct clock_event_device *clock)
{
	return set_clock(KTIME_MAX, clock);
}

static int keep_clock(struct clock_event_device *clock)
{
	return 0;
}

/* Linux 7 has one word for both. */
#ifndef CLOCK_EVT_FEAT_KTIME
#define CLOCK_EVT_FEAT_KTIME CLOCK_EVT_FEAT_HRTIMER
#endif

static void start_clock(int cpu)
{
	struct clock_event_device *clock = &cpus[cpu].clock;

	*clock = (struct clock_event_device) {
		.name = "schedlab",
		.features = CLOCK_EVT_FEAT_ONESHOT | CLOCK_EVT_FEAT_KTIME,
		.rating = 400,
		.mult = 1,
		.min_delta_ns = 1,
		.max_delta_ns = KTIME_MAX,
		.min_delta_ticks = 1,
		.max_delta_ticks = LONG_MAX,
		.set_next_event = set_clock_after,
		.set_next_ktime = set_clock,
		.set_state_shutdown = stop_clock,
		.set_state_oneshot = keep_clock,
		.set_state_oneshot_stopped = stop_clock,
		.tick_resume = keep_clock,
		.cpumask = cpumask_of(cpu),
		.irq = -1,
	};
	board->cpus[cpu].next_event = KTIME_MAX;
	clockevents_register_device(clock);
}

/* ---- interrupts ---- */

void schedlab_send(int cpu, u64 what)
{
	if (cpu == schedlab_cpu) {
		cpus[cpu].own |= what;
		return;
	}
	if (!board->cpus[cpu].sent)
		board->cpus[cpu].sent_at = schedlab_now();
	board->cpus[cpu].sent |= what;
	tell(cpu);
}

void arch_smp_send_reschedule(int cpu)
{
	schedlab_send(cpu, IRQ_RESCHEDULE);
}
ALSO(arch_smp_send_reschedule, smp_send_reschedule);

void arch_send_call_function_single_ipi(int cpu)
{
	schedlab_send(cpu, IRQ_FUNCTION);
}

void arch_send_call_function_ipi_mask(const struct cpumask *mask)
{
	int cpu;

	for_each_cpu(cpu, mask)
		schedlab_send(cpu, IRQ_FUNCTION);
}

void arch_irq_work_raise(void)
{
	schedlab_send(schedlab_cpu, IRQ_WORK);
}

/* Wakeups that come with the interrupt, as from a device: pairs of a task and whether its wait is cut short. */
static void wake_from_outside(void)
{
	u64 at;

	for (at = 0; at < board->arguments[1]; at++)
		schedlab_wake(board->data[2 * at], false, board->data[2 * at + 1]);
}

static void take(u64 what, bool outside)
{
	struct clock_event_device *clock = &cpus[schedlab_cpu].clock;
	struct pt_regs regs = { .user = outside && board->arguments[2] };
	struct pt_regs *before;

	local_irq_disable();
	before = set_irq_regs(&regs);
	irq_enter();
	/* That of a device has begun before. */
	if (outside)
		waited = board->arguments[3];
	if (what & IRQ_TIMER) {
		board->cpus[schedlab_cpu].next_event = KTIME_MAX;
		clock->event_handler(clock);
	}
	if (what & IRQ_RESCHEDULE)
		scheduler_ipi();
	if (what & IRQ_FUNCTION)
		generic_smp_call_function_single_interrupt();
	if (what & IRQ_WORK)
		irq_work_run();
	if (outside)
		wake_from_outside();
	irq_exit();
	set_irq_regs(before);
	local_irq_enable();
}

/* Interrupts that the CPU sent to itself come before anything else. */
void schedlab_settle_own(void)
{
	u64 what;

	while ((what = cpus[schedlab_cpu].own)) {
		cpus[schedlab_cpu].own = 0;
		take(what, false);
	}
}

bool schedlab_sent_own(void)
{
	return cpus[schedlab_cpu].own;
}

void schedlab_interrupt(u64 what)
{
	what |= board->cpus[schedlab_cpu].sent;
	board->cpus[schedlab_cpu].sent = 0;
	if (what != IRQ_POLLED || board->arguments[1] || board->arguments[3])
		take(what, board->call == CALL_INTERRUPT);
	schedlab_settle_own();
}

void arch_cpu_idle(void)
{
	if (idle_polls && current_set_polling_and_test()) {
		current_clr_polling();
		return;
	}
	if (cpus[schedlab_cpu].own) {
		local_irq_enable();
		schedlab_settle_own();
	} else {
		schedlab_to_host();
		local_irq_enable();
		schedlab_interrupt(board->call == CALL_INTERRUPT ? board->arguments[0] : 0);
	}
	if (idle_polls)
		current_clr_polling();
	local_irq_disable();
}

/* ---- how CPUs share hardware ---- */

static struct cpumask thread_masks[NR_CPUS], llc_masks[NR_CPUS], socket_masks[NR_CPUS];

const struct cpumask *schedlab_thread_mask(int cpu)
{
	return &thread_masks[cpu];
}

const struct cpumask *schedlab_socket_mask(int cpu)
{
	return &socket_masks[cpu];
}

const struct cpumask *cpu_coregroup_mask(int cpu)
{
	return &llc_masks[cpu];
}

const struct cpumask *cpu_clustergroup_mask(int cpu)
{
	return &thread_masks[cpu];
}

#ifdef CONFIG_NUMA
struct pglist_data *node_data[MAX_NUMNODES];
nodemask_t node_states[NR_NODE_STATES];
unsigned int nr_node_ids = 1, nr_online_nodes = 1;
/* Old trees have it in topology.c. */
int __weak node_reclaim_distance = 30;
DEFINE_PER_CPU(int, numa_node);
static struct cpumask node_masks[MAX_NUMNODES];
static u64 *distances;

const struct cpumask *cpumask_of_node(int node)
{
	return node < 0 ? cpu_online_mask : &node_masks[node];
}

int schedlab_distance(int a, int b)
{
	return distances[a * nr_node_ids + b];
}

static void place_on_node(int cpu, int node)
{
	enum node_states state;

	per_cpu(numa_node, cpu) = node;
	cpumask_set_cpu(cpu, &node_masks[node]);
	for (state = 0; state < NR_NODE_STATES; state++)
		node_set_state(node, state);
	if (node >= nr_node_ids)
		nr_node_ids = nr_online_nodes = node + 1;
}
#endif

/* For each CPU its core, LLC, node, socket, capacity, and its policy of cpufreq with limits; then the distances of all nodes. */
static void read_places(void)
{
	u64 *from = board->data;
	int cpu, other;

	for (cpu = 0; cpu < schedlab_cpus; cpu++, from += 8) {
		schedlab_places[cpu] = (struct schedlab_place) {
			.core = from[0], .llc = from[1], .node = from[2], .socket = from[3],
		};
		schedlab_capacity[cpu] = from[4];
#ifdef CONFIG_CPU_FREQ
		schedlab_join_policy(cpu, from[5], from[6], from[7]);
#endif
	}
	for (cpu = 0; cpu < schedlab_cpus; cpu++) {
		struct schedlab_place *own = &schedlab_places[cpu];

		for (other = 0; other < schedlab_cpus; other++) {
			struct schedlab_place *its = &schedlab_places[other];

			if (its->core == own->core)
				cpumask_set_cpu(other, &thread_masks[cpu]);
			if (its->llc == own->llc)
				cpumask_set_cpu(other, &llc_masks[cpu]);
			if (its->socket == own->socket)
				cpumask_set_cpu(other, &socket_masks[cpu]);
		}
#ifdef CONFIG_NUMA
		place_on_node(cpu, own->node);
#endif
	}
#ifdef CONFIG_NUMA
	distances = schedlab_take(nr_node_ids * nr_node_ids * sizeof(*distances));
	memcpy(distances, from, nr_node_ids * nr_node_ids * sizeof(*distances));
#endif
}

/* ---- bring-up, in the kernel's order (start_kernel, kernel_init_freeable) ---- */

extern char __per_cpu_start[], __per_cpu_end[];
extern initcall_t schedlab_early[], schedlab_early_end[], schedlab_initcalls[], schedlab_initcalls_end[];
extern struct obs_kernel_param schedlab_setup[], schedlab_setup_end[];
extern void sched_init_smp(void);

static unsigned long per_cpu_used, per_cpu_bytes;

static void make_per_cpu(void)
{
	int cpu;

	per_cpu_used = ALIGN(__per_cpu_end - __per_cpu_start, PAGE_SIZE);
	/*
	 * What is allocated while the machine runs: the pressure of groups, for instance. smpcfd_prepare_cpu takes a
	 * piece for each pair of CPUs.
	 */
	per_cpu_bytes = per_cpu_used + (IS_ENABLED(CONFIG_PSI) ? SZ_1M : SZ_256K) +
			schedlab_cpus * sizeof(call_single_data_t);
	for (cpu = 0; cpu < schedlab_cpus; cpu++) {
		char *area = schedlab_take(per_cpu_bytes);

		memcpy(area, __per_cpu_start, __per_cpu_end - __per_cpu_start);
		__per_cpu_offset[cpu] = area - __per_cpu_start;
	}
	schedlab_offset = __per_cpu_offset[0];
}

void *schedlab_take_per_cpu(size_t bytes, size_t align)
{
	void *at;

	per_cpu_used = ALIGN(per_cpu_used, max_t(size_t, align, 8));
	at = __per_cpu_start + per_cpu_used;
	per_cpu_used += bytes;
	if (per_cpu_used > per_cpu_bytes)
		schedlab_stop("per-CPU memory is used up");
	return at;
}
ALSO(schedlab_take_per_cpu, __alloc_percpu);
ALSO(schedlab_take_per_cpu, __alloc_percpu_gfp);
ALSO(schedlab_take_per_cpu, pcpu_alloc_noprof);

/* A word of the kernel's command line, as parse_early_param reads it. */
static void set_early(const char *name, char *value)
{
	struct obs_kernel_param *at;

	for (at = schedlab_setup; at < schedlab_setup_end; at++)
		if (at->early && !strcmp(at->str, name))
			at->setup_func(value);
}

static void call_all(initcall_t *from, initcall_t *to)
{
	for (; from < to; from++)
		(*from)();
}

/* A CPU's first code (start_secondary). */
static void start_cpu(struct task_struct *from)
{
	int cpu = schedlab_cpu;

	board->cpus[cpu].sent &= ~IRQ_START;
	notify_cpu_starting(cpu);
	start_clock(cpu);
	set_cpu_online(cpu, true);
	local_irq_enable();
	cpu_startup_entry(CPUHP_AP_ONLINE_IDLE);
}

int __cpu_up(unsigned int cpu, struct task_struct *idle)
{
	schedlab_new_stack(idle, start_cpu);
	cpus[cpu].task = idle;
	cpus[cpu].stack_pointer = idle->thread.stack_pointer;
	cpus[cpu].irqs_off = ARCH_IRQ_DISABLED;
	schedlab_send(cpu, IRQ_START);
	while (!cpu_online(cpu)) {
		/* The host lets it run until it idles. */
		preempt_disable();
		schedlab_to_host();
		preempt_enable_no_resched();
	}
	return 0;
}

/* Making it may give way to init. */
static DECLARE_COMPLETION(kthreadd_done);

static int rest(void *unused)
{
	wait_for_completion(&kthreadd_done);
	call_all(schedlab_early, schedlab_early_end);
	smp_init();
	sched_init_smp();
	system_state = SYSTEM_RUNNING;
	call_all(schedlab_initcalls, schedlab_initcalls_end);
	schedlab_start_scheduler();
#ifdef CONFIG_SCHED_AUTOGROUP
	/* As setsid does; tasks of the load are made in this session. Debian's 6.1 has the switch off. */
	if (schedlab_session) {
		char on[] = "1";

		if (schedlab_set_knob("sched_autogroup_enabled", on))
			schedlab_stop("the kernel does not switch autogroup on");
		sched_autogroup_create_attach(current);
	}
#endif
	booted = true;
#ifdef CONFIG_CPU_FREQ
	schedlab_start_governor();
#endif
	schedlab_become_user();
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define init_timers timers_init
#endif

static void start_machine(struct task_struct *from)
{
	boot_cpu_init();
	boot_cpu_hotplug_init();
	sched_init();
	housekeeping_init();
	tick_init();
	init_timers();
	hrtimers_init();
	softirq_init();
	call_function_init();
	start_clock(0);
	local_irq_enable();
	sched_clock_init();
#ifdef CONFIG_IRQ_TIME_ACCOUNTING
	enable_sched_clock_irqtime();
#endif
#ifdef CONFIG_PARAVIRT
	static_key_slow_inc(&paravirt_steal_enabled);
	static_key_slow_inc(&paravirt_steal_rq_enabled);
#endif
	schedlab_boot_tasks();
	system_state = SYSTEM_SCHEDULING;
	schedlab_thread(rest, NULL, "init");
	schedlab_thread(kthreadd, NULL, "kthreadd");
	complete(&kthreadd_done);
	schedule_preempt_disabled();
	cpu_startup_entry(CPUHP_ONLINE);
}

static void boot(void)
{
	int cpu;

	if (schedlab_cpus)
		schedlab_stop("an image boots once");
	schedlab_cpus = board->arguments[0];
	idle_polls = board->arguments[1];
	if (board->arguments[2])
		set_early("skew_tick", "1");
	schedlab_session = board->arguments[3];
	schedlab_seed(board->arguments[4]);
	if (schedlab_cpus < 1 || schedlab_cpus > NR_CPUS)
		schedlab_stop("this image was built for at most %d CPUs", NR_CPUS);
	nr_cpu_ids = schedlab_cpus;
	make_per_cpu();
	for (cpu = 0; cpu < schedlab_cpus; cpu++) {
		set_cpu_possible(cpu, true);
		set_cpu_present(cpu, true);
		board->cpus[cpu].next_event = KTIME_MAX;
	}
	read_places();
	schedlab_new_stack(&init_task, start_machine);
	cpus[0].task = &init_task;
	cpus[0].stack_pointer = init_task.thread.stack_pointer;
	cpus[0].irqs_off = ARCH_IRQ_DISABLED;
	board->cpu = 0;
	run(0);
	while (!board->stopped) {
		bool any = false;

		for (cpu = 0; cpu < schedlab_cpus && !board->stopped; cpu++) {
			bool waits = !booted && cpu == 0 && !is_idle_task(cpus[0].task);

			if (!board->cpus[cpu].sent && !waits)
				continue;
			any = true;
			board->cpu = cpu;
			run(cpu);
		}
		if (!any)
			break;
	}
	if (!booted && !board->stopped)
		schedlab_print("the machine did not come up\n"), board->stopped = 1;
}

/* The image's entry: runs one CPU until it gives back control. */
void schedlab_enter(struct board *of)
{
	u64 at;

	board = of;
	schedlab_entered++;
	for (at = 0; at < board->touched; at++)
		cpus[board->touched_cpus[at]].touched = false;
	board->touched = board->records = 0;
	blocks_before = schedlab_blocks;
	waited = 0;
	if (board->version != BOARD_VERSION || board->stopped) {
		board->stopped = 1;
		return;
	}
	if (board->call == CALL_BOOT)
		boot();
	else if (board->call == CALL_NEWIDLE_COST)
		board->result = schedlab_newidle_cost();
	else
		run(board->cpu);
	schedlab_now();
}
