/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The types are those of this kernel: what compiles exists. */
#ifndef SCHEDLAB_BPF_CORE_READ_H
#define SCHEDLAB_BPF_CORE_READ_H

#define bpf_core_field_exists(field) ((void)(field), 1)
#define bpf_core_type_exists(of) (sizeof(of) >= 0)
#define bpf_core_enum_value_exists(of, value) ((void)(value), 1)
#define bpf_core_enum_value(of, value) (value)
#define bpf_core_type_id_local(of) 0

#define schedlab_read2(a, b) ((a)->b)
#define schedlab_read3(a, b, c) ((a)->b->c)
#define schedlab_read4(a, b, c, d) ((a)->b->c->d)
#define schedlab_read_nth(a, b, c, d, name, ...) name
#define BPF_CORE_READ(of...) schedlab_read_nth(of, schedlab_read4, schedlab_read3, schedlab_read2)(of)

#endif
