// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Frequencies: policies of cpufreq, whose governor is the tree's schedutil. The driver is the simulated machine: CPUs
 * get any frequency between their limits, at once.
 */
#include <linux/cpufreq.h>
#include "board.h"

#ifdef CONFIG_CPU_FREQ
/* In 1,024ths of the highest frequency. */
unsigned long schedlab_frequency[NR_CPUS] = { [0 ... NR_CPUS - 1] = SCHED_CAPACITY_SCALE };
/* What lower limits take of a CPU: nothing. Kernels since Linux 6.10 read it. */
DEFINE_PER_CPU(unsigned long, cpufreq_pressure);
static struct cpufreq_governor *governor;
static struct cpufreq_policy *policies[NR_CPUS + 1];

int cpufreq_register_governor(struct cpufreq_governor *registered)
{
	if (!strcmp(registered->name, "schedutil"))
		governor = registered;
	return 0;
}

void cpufreq_enable_fast_switch(struct cpufreq_policy *policy)
{
	policy->fast_switch_enabled = true;
}

/* How often a driver that says nothing about it wants to be asked: once in a millisecond. */
unsigned int cpufreq_policy_transition_delay_us(struct cpufreq_policy *policy)
{
	return USEC_PER_MSEC;
}

unsigned int cpufreq_driver_resolve_freq(struct cpufreq_policy *policy, unsigned int wanted)
{
	return clamp(wanted, policy->min, policy->max);
}

unsigned int cpufreq_driver_fast_switch(struct cpufreq_policy *policy, unsigned int wanted)
{
	int cpu;

	policy->cur = cpufreq_driver_resolve_freq(policy, wanted);
	for_each_cpu(cpu, policy->cpus) {
		struct board_record_ *record = schedlab_record(RECORD_FREQUENCY);

		record->task = NOBODY;
		record->other = cpu;
		record->more = board->cpus[cpu].frequency = policy->cur;
		schedlab_frequency[cpu] = (u64)policy->cur * SCHED_CAPACITY_SCALE / policy->max;
	}
	return policy->cur;
}

/* A CPU is one of those of a policy (0: of none), with its limits in kHz. */
void schedlab_join_policy(int cpu, u64 number, u64 least, u64 most)
{
	struct cpufreq_policy *policy = policies[number];

	if (!number)
		return;
	if (!policy) {
		policy = policies[number] = schedlab_take(sizeof(*policy));
		zalloc_cpumask_var(&policy->cpus, GFP_KERNEL);
		zalloc_cpumask_var(&policy->related_cpus, GFP_KERNEL);
		policy->cpu = cpu;
		policy->min = policy->cpuinfo.min_freq = least;
		policy->max = policy->cpuinfo.max_freq = policy->cur = most;
		policy->fast_switch_possible = policy->dvfs_possible_from_any_cpu = true;
	}
	cpumask_set_cpu(cpu, policy->cpus);
	cpumask_set_cpu(cpu, policy->related_cpus);
}

void schedlab_start_governor(void)
{
	int at;

	for (at = 1; at <= NR_CPUS; at++) {
		struct cpufreq_policy *policy = policies[at];

		if (!policy)
			continue;
		policy->governor = governor;
		if (!governor || governor->init(policy) || governor->start(policy))
			schedlab_stop("schedutil does not start");
		governor->limits(policy);
	}
}
#endif
