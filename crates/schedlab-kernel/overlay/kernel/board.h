/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The board: memory that the world outside and the image share. The world writes a call and enters the
 * image; the image runs one CPU until that gives back control, and tells by records what happened.
 * board.rs of schedlab-sim has the same layout, in words of 64 bits.
 */
#ifndef SCHEDLAB_BOARD_H
#define SCHEDLAB_BOARD_H

#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>

struct task_struct;

#define BOARD_VERSION 3
#define BOARD_CPUS 8192
#define BOARD_RECORDS 32768
#define BOARD_DATA 131072
#define BOARD_TEXT (1 << 16)
#define BOARD_TRACE 32

enum board_call {
	CALL_BOOT,
	/* Interrupts reach a CPU: those that were sent, the timer, wakeups from outside. */
	CALL_INTERRUPT,
	/* The task that runs on a CPU does something in the kernel. */
	CALL_WAKE,
	CALL_SLEEP,
	CALL_SLEEP_UNTIL,
	CALL_YIELD,
	CALL_EXIT,
	CALL_FORK,
	CALL_SET,
	/* It goes back to user space. */
	CALL_LEAVE,
	/* The task that has booted prepares the machine. */
	CALL_THREADS,
	CALL_KNOBS,
	CALL_KNOB_SET,
	CALL_GROUP,
	CALL_GROUP_SET,
	/* Answered at once, on no CPU: the most that newidle balancing of a domain cost, by the kernel. */
	CALL_NEWIDLE_COST = 64,
};

enum board_record {
	RECORD_WAKING = 1,
	RECORD_WAKEUP,
	RECORD_WAKEUP_NEW,
	RECORD_MIGRATE,
	RECORD_SWITCH,
	/* `other` is the CPU, `more` its frequency in kHz. */
	RECORD_FREQUENCY,
};

enum board_context { IN_TASK, IN_SOFTIRQ, IN_HARDIRQ };

/* What interrupts a CPU. */
#define IRQ_TIMER 1
#define IRQ_RESCHEDULE 2
#define IRQ_FUNCTION 4
#define IRQ_WORK 8
#define IRQ_START 16
/* No interrupt: a CPU that polls was told to look. */
#define IRQ_POLLED 32

/* Names of threads of the kernel, which are not the load's: from here on, by their pid. */
#define THREADS (1ULL << 32)
/* Nobody's name: the idle task. */
#define NOBODY (~0ULL)

struct board_cpu {
	/*
	 * `sent_at`: when the first of what was sent and has not arrived was sent; `stolen`: what the hypervisor has taken;
	 * `frequency`: in kHz, if the kernel changes it. */
	u64 next_event, sent, resched, sent_at, stolen, frequency;
};

struct board_record_ {
	/*
	 * `at`: how long after the call began. Of a switch: `ran`: for how long the task that leaves has run, by the kernel's account; `until` and
	 * `since`: up to when that one is charged, and from when on the next one is. Both may be a little
	 * behind: the kernel saves an update of the CPU's clock where one follows soon (rq_clock_skip_update).
	 */
	u64 kind, cpu, task, other, more, prio, ran, until, since, at;
};

struct board {
	u64 version, now, call, cpu, arguments[8];
	s64 result;
	/* Time that passed inside, in nanoseconds. */
	u64 passed;
	/* Whether the image stopped for good (2: the linked scheduler ended), and how many return addresses `trace` has. */
	u64 stopped, traced, trace[BOARD_TRACE];
	u64 arena, arena_bytes, arena_used;
	u64 records, touched, text_bytes;
	/* How long 1,000 basic blocks take, in nanoseconds. */
	u64 code_1000;
	struct board_cpu cpus[BOARD_CPUS];
	u64 touched_cpus[BOARD_CPUS];
	u64 data[BOARD_DATA];
	struct board_record_ record[BOARD_RECORDS];
	char text[BOARD_TEXT];
};

/* As schedlab-sim counts. */
static_assert(offsetof(struct board, cpus) == 8 * 55);
static_assert(offsetof(struct board, data) == 8 * 57399);
static_assert(offsetof(struct board, text) == 8 * 516151);

/*
 * A further name of a function, for what trees declare in several ways: their calls pass the same arguments first.
 */
#define ALSO(function, name) asm(".globl " #name "\n" #name " = " #function)

extern struct board *board;

/* machine.c */
extern u64 schedlab_entered;
extern int schedlab_cpus;
extern bool schedlab_session;
void schedlab_seed(u64 seed);
void schedlab_send(int cpu, u64 what);
void schedlab_to_host(void);
void schedlab_settle_own(void);
bool schedlab_sent_own(void);
void schedlab_interrupt(u64 outside);
void schedlab_new_stack(struct task_struct *task, void (*first)(struct task_struct *from));
void *schedlab_take_per_cpu(size_t bytes, size_t align);
void schedlab_give_up(void);
void schedlab_stop(const char *format, ...) __printf(1, 2) __noreturn;
struct board_record_ *schedlab_record(u64 kind);
u64 schedlab_now(void);

/* tasks.c */
void schedlab_boot_tasks(void);
void schedlab_watch(void);
u64 schedlab_newidle_cost(void);
void schedlab_become_user(void) __noreturn;
void schedlab_wake(u64 task, bool sync, bool signal);
struct task_struct *schedlab_thread(int (*work)(void *), void *of, const char *name);

/* The task with a pid, unless it is gone. */
struct task_struct *schedlab_task_of_pid(s32 pid);

/* scx.c */
void schedlab_start_scheduler(void);
void schedlab_tell_scheduler(void);
void schedlab_forget(struct task_struct *task);

/* knobs.c */
s64 schedlab_list_knobs(void);
int schedlab_set_knob(const char *name, char *value);

/* frequency.c */
void schedlab_join_policy(int cpu, u64 number, u64 least, u64 most);
void schedlab_start_governor(void);

/* services.c */
void *schedlab_take(size_t bytes);
void schedlab_print(const char *text);

#endif
