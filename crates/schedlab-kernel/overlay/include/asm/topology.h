/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_TOPOLOGY_H
#define _ASM_TOPOLOGY_H

struct cpumask;

/* Where a CPU is. */
struct schedlab_place {
	int core, llc, node, socket;
};
extern struct schedlab_place schedlab_places[];
extern unsigned long schedlab_capacity[];

const struct cpumask *schedlab_thread_mask(int cpu);
const struct cpumask *schedlab_socket_mask(int cpu);
const struct cpumask *cpu_coregroup_mask(int cpu);
const struct cpumask *cpu_clustergroup_mask(int cpu);

#define topology_physical_package_id(cpu) (schedlab_places[cpu].socket)
#define topology_core_id(cpu) (schedlab_places[cpu].core)
#define topology_cluster_id(cpu) (schedlab_places[cpu].core)
#define topology_sibling_cpumask(cpu) schedlab_thread_mask(cpu)
#define topology_cluster_cpumask(cpu) schedlab_thread_mask(cpu)
#define topology_core_cpumask(cpu) schedlab_socket_mask(cpu)
#define arch_scale_cpu_capacity(cpu) (schedlab_capacity[cpu])

#ifdef CONFIG_CPU_FREQ
extern unsigned long schedlab_frequency[];
#define arch_scale_freq_capacity(cpu) (schedlab_frequency[cpu])
#endif

#ifdef CONFIG_NUMA
const struct cpumask *cpumask_of_node(int node);
int schedlab_distance(int a, int b);
#define cpumask_of_node cpumask_of_node
#define node_distance(a, b) schedlab_distance(a, b)
#endif

#include <asm-generic/topology.h>

#endif
