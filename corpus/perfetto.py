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


SUBJECTS = [*('parser/' + of for of in ('atrace', 'ftrace', 'generic_kernel', 'parsing', 'process_tracking',
                                        'sched', 'smoke', 'track_event')),
            'stdlib/linux', 'stdlib/sched', 'stdlib/slices', 'tables']
# Slices of graphics cards, disks, kprobes and system calls, and Chrome's older form of events.
OTHERS = ('adreno', 'block_io', 'kprobes', 'legacy_async', 'sys_', 'funcgraph')


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
                return ''  # nothing that schedlab reads
            else:
                words.append(f'{field.number}:{int(v) % 2**64}')
    return ' '.join(words)


def trace(folder, part):
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
    return ['packet ' + spelled(packet) for packet in packets.packet], packets


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
            if get(row, 'dur', 'slice_dur') != '-':
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


if __name__ == '__main__':
    everything = list(blueprints())
    asks = re.compile(r'\bsched\b|sched_|thread_state')
    held_elsewhere = sum(isinstance(of.trace, testing.DataPath) and
                         bool(asks.search(text(folder, of.query))) for folder, _, of in everything)
    cases = []
    for folder, name, of in everything:
        if folder not in SUBJECTS or name.startswith(OTHERS):
            continue
        lines, packets = trace(folder, of.trace)
        if not lines:
            continue
        modifier = getattr(of, 'trace_modifier', None)
        if modifier and packets:
            modifier.inject(packets) if hasattr(modifier, 'inject') else None
            continue
        found = rows(text(folder, of.query), text(folder, of.out), packets, folder)
        if found:
            cases.append([f'case {folder} {name}', *lines, *found])
    print('# Facts of the diff tests of Perfetto (https://github.com/google/perfetto, Apache License 2.0), made by perfetto.py.')
    print(f'# Of {len(everything)} tests: {len(cases)} with a trace in the repository that ask for what schedlab reads.')
    print(f'# {held_elsewhere} further tests ask about scheduling; their traces are kept elsewhere.')
    for case in cases:
        print()
        print('\n'.join(case))
