#!/usr/bin/env python3
"""Rebuilds perfetto.txt from a checkout of Perfetto: python3 perfetto.py PERFETTO > perfetto.txt

It needs the packages protobuf and grpcio-tools. Perfetto's diff tests pair a trace with a query and
its rows. This keeps the tests whose trace lies in the checkout and whose query asks for what schedlab
reads: slices of CPUs, states, tasks, marks, counters of CPUs. Traces are written by the numbers of their
fields, rows in the words of perfetto_cases.rs.
"""
import csv, glob, importlib.util, inspect, io, json, os, re, subprocess, sys, tempfile

root = os.path.abspath(sys.argv[1])
tests = os.path.join(root, 'test/trace_processor/diff_tests')
sys.path[:0] = [root, os.path.join(root, 'test')]
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from python.generators.diff_tests import testing

made = tempfile.mkdtemp()
descriptor = os.path.join(made, 'trace.descriptor')
subprocess.check_call([sys.executable, '-m', 'grpc_tools.protoc', '-I', root, '--include_imports',
                       '-o', descriptor, 'protos/perfetto/trace/trace.proto',
                       'protos/third_party/chromium/chrome_enums.proto',
                       'protos/third_party/chromium/chrome_track_event.proto',
                       *glob.glob('protos/third_party/android/frameworks/native/**/*.proto', root_dir=root,
                                  recursive=True)], cwd=root)
files = descriptor_pb2.FileDescriptorSet.FromString(open(descriptor, 'rb').read())
pool = descriptor_pool.DescriptorPool()
for file in files.file:
    pool.Add(file)
Trace = message_factory.GetMessageClass(pool.FindMessageTypeByName('perfetto.protos.Trace'))


SUBJECTS = [*('parser/' + of for of in ('atrace', 'chrome', 'ftrace', 'generic_kernel', 'parsing', 'process_tracking',
                                        'sched', 'smoke', 'track_event')),
            *('stdlib/' + of for of in ('android', 'dynamic_tables', 'linux', 'pixel', 'prelude', 'sched', 'slices')),
            *('metrics/' + of for of in ('android', 'chrome', 'irq', 'startup')), 'summary', 'syntax', 'tables']
# Slices of graphics cards, disks, kprobes, system calls and batteries, names that Perfetto changes, and Chrome's older form
# of events.
OTHERS = ('adreno', 'android_battery', 'android_slices_standard', 'android_system_property', 'block_io', 'kprobes', 'legacy_async',
          'slice_mdss', 'slice_with_pid', 'sys_syscall', 'funcgraph', 'triggers_')


def blueprints():
    for path in sorted(glob.glob(tests + '/**/*.py', recursive=True)):
        if 'TestSuite' not in open(path, errors='replace').read():
            continue
        spec = importlib.util.spec_from_file_location('suite', path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except ImportError:
            continue  # needs what Perfetto's own build makes
        for _, suite in inspect.getmembers(module, inspect.isclass):
            if issubclass(suite, testing.TestSuite) and suite is not testing.TestSuite:
                of = suite.__new__(suite)
                for name, make in inspect.getmembers(of, inspect.ismethod):
                    if name.startswith('test_'):
                        yield os.path.relpath(os.path.dirname(path), tests), name[5:], make()


def text(folder, part):
    if isinstance(part, testing.Path):
        return open(os.path.join(tests, folder, part.filename), errors='replace').read()
    return part if isinstance(part, str) else getattr(part, 'contents', '')


def spelled(message):
    words = []
    for field, value in message.ListFields():
        if field.message_type and field.message_type.GetOptions().map_entry:
            continue
        values = value if field.is_repeated else [value]
        if field.is_packed:
            words.append(f'{field.number}:[{" ".join(str(int(v) % 2**64) for v in values)}]')
            continue
        for v in values:
            if field.message_type:
                words.append(f'{field.number}{{{spelled(v)}}}')
            elif isinstance(v, bytes):
                words.append(f'{field.number}:{json.dumps(v.decode("latin-1"))}')
            elif isinstance(v, str):
                words.append(f'{field.number}:{json.dumps(v)}')
            elif isinstance(v, float):
                continue  # nothing that schedlab reads
            else:
                words.append(f'{field.number}:{int(v) % 2**64}')
    return ' '.join(words)


def trace(folder, part, modifier=None):
    """The lines of a trace, and its packets where it has any."""
    if isinstance(part, testing.DataPath):
        return None, None
    if isinstance(part, testing.Systrace) or str(getattr(part, 'filename', '')).endswith('.systrace'):
        lines = text(folder, part).split('\n')
        return ['text ' + line for line in lines if line.strip()], None
    packets = Trace()
    name = getattr(part, 'filename', '')
    if isinstance(part, testing.TextProto) or name.endswith('.textproto'):
        try:
            text_format.Merge(text(folder, part), packets)
        except text_format.ParseError:
            return None, None
    elif name.endswith('.py'):
        path = os.path.join(tests, folder, name)
        env = dict(os.environ, PYTHONPATH=f'{root}:{root}/test')
        try:
            packets.ParseFromString(subprocess.check_output(
                [sys.executable, path, descriptor], env=env, cwd=os.path.dirname(path), stderr=subprocess.DEVNULL))
        except subprocess.CalledProcessError:
            return None, None
    else:
        return None, None
    if modifier:
        modifier.inject(packets)
    lines = ['packet ' + spelled(packet) for packet in packets.packet]
    return [line for line in lines if line != 'packet '], packets


def tids(packets):
    """Perfetto's numbers of threads, from 1 on: in the order in which packets name them."""
    seen = []
    for packet in packets.packet if packets else []:
        of = packet.generic_kernel_task_state_event
        if packet.HasField('generic_kernel_task_state_event') and of.tid not in seen:
            seen.append(of.tid)
    return seen


def rows(query, out, packets, folder):
    table = [row for row in csv.reader(io.StringIO(re.sub(r'\n\s+', '\n', out.strip())))]
    if not table or not query:
        return []
    head, table = table[0], table[1:]
    query = ' '.join(query.lower().split())
    at = {name: place for place, name in reversed(list(enumerate(head)))}
    null = '[NULL]'
    threads = tids(packets)

    def get(row, *names):
        for name in names:
            if name in at:
                return row[at[name]] if row[at[name]] != null else '-'
        return '-'

    def tid(row):
        if 'tid' in at or 'pid' in at:
            return get(row, 'tid', 'pid')
        number = get(row, 'utid')
        if number.isdigit() and 0 < int(number) <= len(threads):
            return str(threads[int(number) - 1])
        # The same number was given to a second task.
        return str(threads[-1]) if number.isdigit() and int(number) > 0 and threads else None

    found = []
    for row in table:
        if len(row) != len(head):
            return []
        if {'ts', 'dur'} <= set(head) and re.search(r'from sched(_slice)?\b', query):
            found.append(f"slice {get(row, 'ts')} {get(row, 'dur')} {get(row, 'cpu')} "
                         f"{tid(row) or '-'} {get(row, 'end_state')}")
        elif 'from thread_state' in query and 'ts' in at:
            state = get(row, 'state')
            if 'io_wait' in at or 'func' in at:
                found.append(f"blocked {get(row, 'ts')} {tid(row)} {get(row, 'io_wait')} {get(row, 'func')}")
            elif state != 'Created':
                found.append(f"state {get(row, 'ts')} {get(row, 'dur')} {state} {tid(row)} {get(row, 'cpu')}")
        elif {'tid', 'pid', 'tname'} <= set(head) and 'left join process' in query:
            found.append(f"task {get(row, 'tid')} {get(row, 'pid')} {get(row, 'tname')}")
        elif {'utid', 'tid', 'name'} <= set(head) and 'from thread' in query:
            if get(row, 'tid') != '0' and get(row, 'is_idle') in ('-', '0'):
                found.append(f"task {get(row, 'tid')} - {get(row, 'name')}")
        elif {'ts', 'dur'} <= set(head) and ('name' in at or 'slice_name' in at) and re.search(
                r'from (slice|thread_slice|process_slice|thread_or_process_slice)\b', query):
            if get(row, 'dur', 'slice_dur') != '-' and not get(row, 'name').startswith('sys_'):
                found.append(f"mark {get(row, 'ts')} {get(row, 'dur')} {get(row, 'slice_name', 'name')}")
        elif 'slice_dur' in at and 'slice_name' in at:
            if get(row, 'slice_dur') != '-':
                found.append(f"mark {get(row, 'ts')} {get(row, 'slice_dur')} {get(row, 'slice_name')}")
        elif head == ['ts', 'name'] and 'from slice' in query:
            found.append(f"mark {get(row, 'ts')} ? {get(row, 'name')}")
        elif 'dur = 0' in query and 'instant' in query:
            found.append(f"mark {get(row, 'ts')} 0 {get(row, 'instant_name', 'track_name')}")
        elif head == ['ts', 'value', 'cpu'] and re.match(r'Cpu \d+ M', row[2]):
            _, cpu, kind = row[2].split()
            found.append(f"counter {row[0]} cpu_frequency_limits {kind.lower()}_freq={int(float(row[1]))} cpu_id={cpu}")
        elif {'name', 'ts', 'value'} <= set(head) and re.match(r'Cpu \d+ (Util|Cap|Nr Running)', row[at['name']]):
            _, cpu, kind = row[at['name']].split(' ', 2)
            kind = {'Util': 'cpu_util', 'Cap': 'capacity', 'Nr Running': 'nr_running'}[kind]
            found.append(f"counter {get(row, 'ts')} sched_cpu_util_cfs {kind}={int(float(get(row, 'value')))} cpu={cpu}")
        elif "t.type = 'cpu_frequency'" in query and get(row, 'machine_id') in ('-', '0'):
            found.append(f"counter {get(row, 'ts')} cpu_frequency state={int(float(get(row, 'value')))} cpu_id={get(row, 'cpu')}")
        elif head == ['ts', 'dur', 'value'] and 'where cpu = 1' in query:
            found.append(f"counter {row[0]} cpu_frequency state={int(float(row[2]))} cpu_id=1")
        elif head == ['ts', 'active_cpu_count']:
            found.append(f"active {row[0]} {row[1]}")
        elif head == ['cpu', 'state', 'count', 'dur', 'avg_dur', 'idle_percent']:
            found.append(f"idle {row[0]} {int(row[1]) - 1} {row[2]} {row[3]}")  # 0: not idle
        elif head == ['ts', 'dur', 'action']:
            continue
        elif head == ['line'] or head == ['to_ftrace(id)']:
            return []
    return found


# Columns of names of slices, with those of their times.
NAMES = {'name': 'ts', 'slice_name': 'slice_ts', 'name1': 'ts1', 'name2': 'ts2', 'name_out': 'ts_out', 'name_in': 'ts_in',
         'leaf1': '', 'leaf2': '', 'currentSliceName': '', 'descendant_name': ''}
# Columns of slices of which the second lies within the first.
NESTED = [('parent', 'child'), ('parent_name', 'child_name'), ('ancestorSliceName', 'currentSliceName'),
          ('currentSliceName', 'descendantSliceName')]


def named(query, out, lines):
    """What further tables say of slices and tasks."""
    table = [row for row in csv.reader(io.StringIO(re.sub(r'\n\s+', '\n', out.strip())))]
    if table and table[0] == ['name', 'args_json']:
        table = [row[:1] for row in table]  # quotes in it are not doubled
    if not table or any(len(row) != len(table[0]) for row in table):
        return
    asked, query, null = query, ' '.join(query.lower().split()), '[NULL]'
    slices = re.search(r'(from|join) \(?(slice|slice_with_stack_id|slice_self_dur|descendant_slice|ancestor_slice)\b', query)
    for values in table[1:]:
        row = {name: value for name, value in zip(table[0], values) if value != null}
        if 'frame_id' in row:
            frame = 'Choreographer#doFrame ' + row['frame_id']
            if 'from android_frames_choreographer_do_frame' in query and 'ts' in row:
                yield f"mark {row['ts']} ? {frame}"
            if 'name' in row:
                yield f"mark ? ? {row['name']}"
            for name in ('do_frame_dur', 'ui_time'):
                if name in row:
                    yield f'mark ? {row[name]} {frame}'
        elif 'from android_sysui_latency_cujs' in query and 'ts' in row:
            yield f"mark {row['ts']} {row['dur']} {row['cuj_slice_name']}"
        elif table[0] == ['name', 'name', 'is_ancestor']:
            if values[2] == '1':
                yield f'within {values[0]}|{values[1]}'
        elif {'tid', 'is_main_thread'} <= set(row):
            yield f"task {row['tid']} {row['tid'] if row['is_main_thread'] == '1' else '-'} {row.get('name', '-')}"
        elif {'tid', 'pid', 'thread_name'} <= set(row):
            yield f"task {row['tid']} {row['pid']} {row['thread_name']}"
        elif {'pid', 'name', 'sort_index'} <= set(row):
            yield f"task {row['pid']} - {row['name']}"
        elif table[0] == ['ts', 'runnable_thread_count']:
            yield f"runnable {row['ts']} {row['runnable_thread_count']}"
        elif table[0] == ['COUNT(*)'] and re.search(r'from counter where track_id = 0;', query):
            yield f"counted {values[0]} cpu_frequency cpu_id=0"
        elif table[0] == ['line'] and re.search(r'sched_blocked_reason: .*caller=[a-z]', values[0]):
            yield 'blocked ? {} {} {}'.format(*re.search(r'pid=(\d+) iowait=(\d) caller=([a-z]\w+)', values[0]).groups())
        elif table[0] == ['cpu'] or table[0] == ['ucpu', 'cpu', 'machine_id']:
            yield f"cpu {row['cpu']}"
        elif table[0] == ['ts', 'cpu'] and not query:
            yield f"slice {row['ts']} ? {row['cpu']} - -"
        elif table[0] == ['start_ts', 'end_ts'] and any(line.startswith('packet 1{') for line in lines):
            yield f"bounds {row['start_ts']} {row['end_ts']}"
        elif {'ts', 'dur', 'frame_number'} <= set(row):
            yield f"mark {row['ts']} {row['dur']} ?"
        elif 'slice_count' in row and 'slice_name' not in row:
            for name in re.findall(r"name = '(\w+)'", asked):
                yield f'mark ? ? {name}'
        elif table[0] == ['name', 'self_dur'] or slices:
            for name in (name for name in NAMES if name in row):
                yield f"mark {row.get(NAMES[name], '?')} ? {row[name]}"
            for outer, inner in NESTED:
                if outer in row and inner in row and row[outer] != row[inner]:
                    yield f'within {row[outer]}|{row[inner]}'


def metric(out, lines):
    """What a metric of interrupts, names of slices, their longest, or starts of programs says."""
    for time, duration in re.findall(r'ts: (\d+)\s+dur: (\d+)', out if 'android_irq_runtime' in out else ''):
        yield f'irq {time} {duration}'
    for name in re.findall(r'\bslice_name: "([^"]+)"', out if 'chrome_slice_names' in out else ''):
        yield f'mark ? ? {name}'
    for latency in re.findall(r'latency: (\S+)', out if 'ad_services_metric' in out else ''):
        yield f'mark ? {round(float(latency) * 1e6)} ?'  # told in milliseconds
    told = re.findall(r'slice \{\s+name: "([^"]+)"\s+dur_ms: \d+\s+dur_ns: (\d+)', out)
    if 'sysui_notifications_blocking_calls' in out:
        told += re.findall(r'name: "([^"]+)"\s+cnt: 1\s+total_dur_ns: (\d+)', out)
    yield from (f'mark ? {duration} {name}' for name, duration in told)
    for row in out.split('row {')[1:] if 'bundle_id: "max_duration"' in out else []:
        longest, name = re.findall(r'double_value: (\d+)', row), re.findall(r'string_value: "(\w+)"', row)
        yield f'mark ? {longest[0]} {name[-1]}'
    for startup in re.split(r'\n\s*startup \{', out)[1:]:
        of = dict(reversed(re.findall(r'(\w+): "?([\w.]+)', startup)))
        whole = '\n'.join(lines)
        if f"launching: {of['package_name']}|" in whole and 'launchObserver' not in whole:
            yield f"mark ? {of['dur_ns']} launching: {of['package_name']}"
        activity = f"launchingActivity#{of['startup_id']}"
        if f'S|2|{activity}|' in whole and 'intent_received' in of:
            yield f"mark {of['intent_received']} {of['dur_ns']} {activity}"
        begun = 'MetricsLogger:launchObserverNotifyIntentStarted'
        if begun in whole and 'intent_received' in of:
            yield f"mark {of['intent_received']} ? {begun}"
        for what, name in (('start', 'activityStart'), ('resume', 'activityResume')):
            one = re.search(rf'time_activity_{what} \{{\s+dur_ns: (\d+)', startup)
            if one and whole.count(f'|{name}"') == 1:
                yield f'mark ? {one.group(1)} {name}'
        pid = re.search(r'\bpid: (\d+)', startup)
        sums = [of.get(f'{state}_dur_ns', '0') for state in
                ('running', 'runnable', 'uninterruptible_sleep', 'interruptible_sleep')]
        if pid and any(sum != '0' for sum in sums) and 'first_frame' in of:
            yield f"sums {of['intent_received']} {of['first_frame']} {pid.group(1)} {' '.join(sums)}"


if __name__ == '__main__':
    everything = list(blueprints())
    asks = re.compile(r'\bsched\b|sched_|thread_state')
    held_elsewhere = sum(isinstance(of.trace, testing.DataPath) and
                         bool(asks.search(text(folder, of.query))) for folder, _, of in everything)
    cases, traces = [], {}
    for folder, name, of in everything:
        if folder not in SUBJECTS or name.startswith(OTHERS):
            continue
        lines, packets = trace(folder, of.trace, getattr(of, 'trace_modifier', None))
        if not lines:
            continue
        query, out = text(folder, of.query), text(folder, of.out)
        found = rows(query, out, packets, folder) or [*named(query, out, lines)] or [*metric(out, lines)]
        found = [*dict.fromkeys(found)]
        if found:
            whole = '\n'.join(lines)
            same = traces.setdefault(whole, name)
            cases.append([f'case {folder} {name}', *([f'trace {same}'] if same != name else lines), *found])
    print('# Facts of the diff tests of Perfetto (https://github.com/google/perfetto, Apache License 2.0), made by perfetto.py.')
    print(f'# Of {len(everything)} tests: {len(cases)} with a trace in the repository that ask for what schedlab reads.')
    print(f'# {held_elsewhere} further tests ask about scheduling; their traces are kept elsewhere.')
    for case in cases:
        print()
        print('\n'.join(case))
