#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""What `sandboxer run` promises on a good day: statuses, streams, environment, identity, isolation."""

import json
import signal

from harness import PATH, check, equal, main, test

BASE = {"PATH": PATH, "HOME": "/root", "USER": "root", "LOGNAME": "root", "LANG": "C.UTF-8"}

# ---- exit statuses ----


@test
def true_succeeds_without_a_word(c):
    c.run("--", "true").expect(0, out=b"", err=b"")


@test
def the_status_is_the_commands_own(c):
    for code in (0, 1, 2, 42, 77, 200, 255):
        c.sh(f"exit {code}").expect(code)


@test
def a_signal_is_128_plus_n(c):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGUSR1):
        c.sh(f"kill -{int(number)} $$").expect(128 + number)


@test
def what_cannot_be_run_is_126_or_127(c):
    c.run("--", "no-such-program-here").expect(127, says=r"^sandboxer: .*no-such-program-here")
    c.run("--", "/no/such/program").expect(127, says=r"^sandboxer: .*/no/such/program")
    c.run("--", "/etc").expect(126, says=r"^sandboxer: ")
    c.run("--", "/etc/passwd").expect(126, says=r"^sandboxer: ")


@test
def a_text_file_without_interpreter_is_126(c):
    path = c.write("text", "just text\n", 0o755)
    c.run("--mount", f"{path}:/text", "--", "/text").expect(126)


@test
def a_script_runs_by_its_interpreter(c):
    path = c.write("script", "#!/bin/sh\necho script $1\n", 0o755)
    c.run("--mount", f"{path}:/script", "--", "/script", "one").expect(0, out=b"script one\n")


# ---- arguments ----


@test
def arguments_arrive_as_given(c):
    given = ["", " ", "a b", "-x", "--memory", "quote'\"", "new\nline", "ünï✓", "$HOME", "*", "\\"]
    script = "import json, sys; print(json.dumps(sys.argv[1:]))"
    result = c.run("--", "/usr/bin/python3", "-c", script, *given).expect(0)
    equal(json.loads(result.out), given, "argv")


@test
def options_after_the_command_are_the_commands(c):
    c.run("echo", "--memory", "-q", "--").expect(0, out=b"--memory -q --\n")


@test
def help_and_version(c):
    check("run" in c.cli("--help").expect(0).text, "--help does not mention run")
    check("--memory" in c.run("--help").expect(0).text, "run --help does not mention --memory")
    check(any(ch.isdigit() for ch in c.cli("--version").expect(0).text), "--version has no digit")


@test
def canary_succeeds(c):
    c.cli("canary").expect(0)


# ---- streams ----


@test
def streams_are_separate(c):
    c.sh("echo out; echo err >&2", "-q").expect(0, out=b"out\n", err=b"err\n")


@test
def stdin_arrives_and_ends(c):
    c.run("--", "cat", stdin=b"one\0two\xff\n").expect(0, out=b"one\0two\xff\n")


@test
def a_run_ends_though_nobody_closes_its_stdin(c):
    process = c.start_sh("echo done")
    equal(process.stdout.read(), b"done\n", "stdout")
    equal(process.wait(20), 0, "exit status")


@test
def closing_stdin_is_seen_while_the_command_runs(c):
    process = c.start_sh("read line; echo got $line; cat; echo end")
    process.stdin.write(b"first\n")
    process.stdin.flush()
    equal(process.stdout.readline(), b"got first\n", "answer")
    process.stdin.close()
    equal(process.stdout.read(), b"end\n", "rest")
    equal(process.wait(20), 0, "exit status")


@test
def the_standard_streams_can_be_reopened(c):
    for user in ("0", "1000"):
        c.sh("echo o > /dev/stdout; echo e > /dev/stderr", "-q", "--user", user).expect(0, out=b"o\n", err=b"e\n")


@test
def a_background_process_does_not_hold_the_run(c):
    c.sh("sleep 1000 & echo started").expect(0, out=b"started\n")
    c.sh("setsid sleep 1000 >/dev/null 2>&1 </dev/null & exit 3").expect(3)


# ---- environment ----


def environment(result):
    pairs = [line.split("=", 1) for line in result.expect(0).text.splitlines()]
    equal(len(pairs), len(dict(pairs)), f"number of variables, none twice, in {pairs}")
    return dict(pairs)


@test
def the_environment_is_not_the_callers(c):
    result = c.run("--", "env", env={"SECRET_CANARY": "x", "LD_PRELOAD": "", "PYTHONPATH": "/x"})
    equal(environment(result), BASE, "environment")


@test
def env_sets_and_passes(c):
    result = c.run("--env", "ONE=1", "--env", "TWO=a=b c", "--env", "EMPTY=", "--env", "PASSED", "--env", "MISSING",
                   "--", "env", env={"PASSED": "from outside"})
    equal(environment(result), {**BASE, "ONE": "1", "TWO": "a=b c", "EMPTY": "", "PASSED": "from outside"},
          "environment")


@test
def env_comes_before_our_defaults(c):
    result = c.run("--env", "LANG=C", "--env", "PATH=/usr/bin:/bin", "--env", "X=1", "--env", "X=2", "--", "env")
    equal(environment(result), {**BASE, "LANG": "C", "PATH": "/usr/bin:/bin", "X": "2"}, "environment")


# ---- place and identity ----


@test
def home_is_where_a_command_starts(c):
    c.run("--", "pwd").expect(0, out=b"/root\n")
    c.sh("pwd; echo $HOME; touch x && echo made", "--user", "1000").expect(0, out=b"/home/user\n/home/user\nmade\n")


@test
def workdir_is_where_a_command_starts(c):
    for place in ("/", "/tmp", "/usr/bin"):
        c.run("--workdir", place, "--", "pwd").expect(0, out=place.encode() + b"\n")


@test
def user_chooses_the_identity(c):
    ids = "echo $(id -u):$(id -g):$(id -G)"
    c.sh(ids).expect(0, out=b"0:0:0\n")
    c.sh(ids, "--user", "1000").expect(0, out=b"1000:1000:1000\n")
    c.sh(ids, "--user", "1000:1001").expect(0, out=b"1000:1001:1001\n")
    c.sh(ids, "--user", "root").expect(0, out=b"0:0:0\n")


@test
def the_hostname_is_its_own(c):
    check(c.run("--", "uname", "-n").expect(0).text != open("/proc/sys/kernel/hostname").read().strip(),
          "it is the host's")
    c.run("--hostname", "box-7", "--", "uname", "-n").expect(0, out=b"box-7\n")


@test
def the_users_have_names(c):
    c.run("--", "whoami").expect(0, out=b"root\n")
    check(c.run("--user", "1000", "--", "whoami").expect(0).text, "uid 1000 has no name")


# ---- isolation, in the large (tests/attacks has the small) ----


@test
def writes_stay_inside_and_end_with_the_run(c):
    c.sh("echo x > /tmp/mark; echo y > ~/mark; cat /tmp/mark ~/mark").expect(0, out=b"x\ny\n")
    c.sh("ls /tmp ~ | grep mark").expect(1, out=b"")


@test
def system_directories_are_read_only(c):
    for place in ("/usr", "/usr/bin", "/bin", "/lib", "/proc/sys/kernel", "/sys"):
        c.sh(f"touch {place}/mark").expect(1)


@test
def there_is_nothing_of_the_host(c):
    c.sh("ls -A /home /root /work /srv /mnt /media 2>/dev/null | grep -v : | grep -v '^user$' | grep .").expect(1, out=b"")
    c.sh("cat /etc/shadow").expect(1, out=b"")


@test
def loopback_works_and_is_alone(c):
    script = ("import socket as s\nl = s.create_server(('127.0.0.1', 0))\n"
              "c = s.create_connection(l.getsockname())\nl.accept()[0].send(b'hi')\nprint(c.recv(2).decode())\n"
              "print(s.if_nameindex())")
    c.run("--", "/usr/bin/python3", "-c", script).expect(0, out=b"hi\n[(1, 'lo')]\n")


@test
def orphans_are_reaped(c):
    script = ("for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 0' & ) ; done\n"
              "n=0; while ps -eo stat= | grep -q Z; do n=$((n+1)); [ $n -lt 500 ] || exit 9; sleep 0.02; done\necho clean")
    c.sh(script).expect(0, out=b"clean\n")


@test
def killing_everyone_leaves_the_supervisor(c):
    c.sh("sleep 1000 & kill -9 -1; echo survived; exit 5").expect(5, out=b"survived\n")


@test
def quiet_says_no_notes(c):
    c.run("-q", "--memory", "64M", "--cpu", "0.5", "--", "true").expect(0, out=b"", err=b"")


@test(only="root", because="capabilities are granted in root mode only")
def granted_capabilities_are_there_and_no_others(c):
    status = "grep CapEff /proc/self/status"
    c.sh(status).expect(0, out=b"CapEff:\t0000000000000000\n")
    c.sh(status, "--cap", "CHOWN").expect(0, out=b"CapEff:\t0000000000000001\n")
    c.sh(status, "--cap", "CHOWN", "--cap", "KILL").expect(0, out=b"CapEff:\t0000000000000021\n")
    c.sh("touch /tmp/f && chown 5:6 /tmp/f && stat -c %u:%g /tmp/f", "--cap", "CHOWN").expect(0, out=b"5:6\n")


main()
