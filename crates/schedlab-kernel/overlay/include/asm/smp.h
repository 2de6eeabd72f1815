/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_SMP_H
#define _ASM_SMP_H

struct cpumask;
struct task_struct;

/* The CPU that runs now. */
extern int schedlab_cpu;
#define raw_smp_processor_id() schedlab_cpu

void arch_send_call_function_single_ipi(int cpu);
void arch_send_call_function_ipi_mask(const struct cpumask *mask);
int __cpu_up(unsigned int cpu, struct task_struct *idle);
void smp_send_stop(void);

static inline int __cpu_disable(void)
{
	return -1;
}

static inline void __cpu_die(unsigned int cpu)
{
}

#endif
