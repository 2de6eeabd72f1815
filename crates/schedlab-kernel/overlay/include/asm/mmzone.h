/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_MMZONE_H
#define _ASM_MMZONE_H

#ifdef CONFIG_NUMA
extern struct pglist_data *node_data[];
#ifndef NODE_DATA
#define NODE_DATA(node) node_data[node]
#endif
#endif

#endif
