/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_PROCESSOR_H
#define _ASM_PROCESSOR_H

#include <asm/page.h>
#include <asm/ptrace.h>

#define TASK_SIZE (1UL << 47)
#define TASK_SIZE_MAX TASK_SIZE
#define TASK_UNMAPPED_BASE (TASK_SIZE / 3)
#define STACK_TOP TASK_SIZE
#define STACK_TOP_MAX TASK_SIZE

struct thread_struct {
	unsigned long stack_pointer;
};
#define INIT_THREAD { 0 }

#define cpu_relax() barrier()
#define task_pt_regs(task) ((struct pt_regs *)NULL)
#define KSTK_EIP(task) 0UL
#define KSTK_ESP(task) 0UL

struct task_struct;

static inline unsigned long __get_wchan(struct task_struct *task)
{
	return 0;
}

static inline void start_thread(struct pt_regs *regs, unsigned long ip, unsigned long sp)
{
}

static inline void flush_thread(void)
{
}

static inline void prefetch(const void *address)
{
}

#endif
