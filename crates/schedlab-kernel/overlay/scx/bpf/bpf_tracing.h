/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A program is a plain function. */
#ifndef SCHEDLAB_BPF_TRACING_H
#define SCHEDLAB_BPF_TRACING_H

#define BPF_PROG(name, of...) name(of)

#endif
