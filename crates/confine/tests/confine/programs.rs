//! Ordinary programs that must run unaffected by the confinement, each used the way agents use it.

use std::path::Path;
use std::process::Command;

use pinfold_confine::Profile;
use pinfold_test_support::skip;

use crate::fixture::run_confined;

const PYTHON: &str = r#"
import concurrent.futures, multiprocessing, os, select, shutil, socket, subprocess, tempfile, threading, mmap

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sum(pool.map(lambda n: n * n, range(100))) == 328350
assert subprocess.run(["sh", "-c", "echo inside"], capture_output=True).stdout == b"inside\n"

for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen()
    def serve():
        peer, _ = listener.accept()
        peer.sendall(b"hello")
        peer.close()
    server = threading.Thread(target=serve)
    server.start()
    client = socket.create_connection(listener.getsockname()[:2])
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert client.recv(16) == b"hello"
    server.join()
    socket.socket(family, socket.SOCK_DGRAM).bind((address, 0))
listener = socket.socket()
listener.bind(("127.0.0.1", 80))
assert any(name == "lo" for _, name in socket.if_nameindex())
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0))
left, right = socket.socketpair()
poll = select.epoll()
poll.register(right, select.EPOLLIN)
left.send(b"x")
assert poll.poll(5)

lock, value = multiprocessing.Lock(), multiprocessing.Value("i", 0)
def work():
    with lock:
        value.value += 1
children = [multiprocessing.get_context("fork").Process(target=work) for _ in range(4)]
[child.start() for child in children]
[child.join() for child in children]
assert value.value == 4

with tempfile.NamedTemporaryFile() as file:
    file.write(b"x" * 4096)
    file.flush()
    assert mmap.mmap(file.fileno(), 4096)[:1] == b"x"
    os.chmod(file.name, 0o600)
    # Both try a denied call first and fall back.
    file.seek(0)
    assert left.sendfile(file, count=16) == 16
    shutil.copyfile(file.name, file.name + ".copy")
    os.remove(file.name + ".copy")
os.sync()
os.getrandom(8)
"#;

const NODE: &str = r#"
const { Worker } = require("worker_threads");
const { execFileSync } = require("child_process");
const net = require("net"), fs = require("fs"), zlib = require("zlib");
if (execFileSync("echo", ["inside"]).toString() !== "inside\n") process.exit(2);
const worker = new Worker("require('worker_threads').parentPort.postMessage(42)", { eval: true });
worker.on("message", (answer) => { if (answer !== 42) process.exit(3); });
zlib.gzip("x", (error) => { if (error) process.exit(4); });
fs.readFile(process.execPath, (error) => { if (error) process.exit(5); });
const server = net.createServer((peer) => peer.end("hello")).listen(0, "127.0.0.1", () => {
  net.connect(server.address().port, "127.0.0.1").on("data", (data) => {
    if (data.toString() !== "hello") process.exit(6);
    server.close();
  });
});
"#;

const HELLO_C: &str = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n";
/// The standard library copies with splice or sendfile where possible.
const HELLO_RUST: &str = r#"
fn main() {
    std::thread::spawn(|| std::fs::write("said", "hello\n").unwrap()).join().unwrap();
    std::io::copy(&mut std::fs::File::open("said").unwrap(), &mut std::io::stdout()).unwrap();
}
"#;

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}

/// Runs a program in a directory and returns its output. A program that is not installed is skipped.
fn run(program: &str, arguments: &[&str], directory: &Path) -> Option<String> {
    if !on_path(program) {
        skip(&format!("ordinary program {program}"), "it is not installed");
        return None;
    }
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    let output = run_confined(&Profile::default(), &mut command);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{text}\n{errors}", output.status);
    Some(text.into_owned())
}

#[test]
fn a_shell_runs_pipes_jobs_and_substitution() {
    let directory = tempfile::tempdir().unwrap();
    let script = "ls / | sort | cat >list && test -s list && (sleep 0 & wait) && trap : TERM && kill -TERM $$ \
                  && cp list copy && mv copy moved && mkdir -p a/b && ln -s b a/c && chmod 600 moved \
                  && chown 0:0 moved && tar cf all.tar a moved && tar xf all.tar && rm -r a && echo $(cat moved | wc -l)";

    let lines = run("sh", &["-c", script], directory.path()).unwrap();

    assert!(lines.trim().parse::<u32>().unwrap() > 5, "{lines}");
}

#[test]
fn git_makes_a_repository_and_a_commit() {
    let directory = tempfile::tempdir().unwrap();
    let script = "git init -q . && echo x >file && git add file \
                  && git -c user.name=a -c user.email=a@b commit -qm first && git clone -q . copy && git -C copy log --oneline";

    if run("git", &["--version"], directory.path()).is_some() {
        let output = run("sh", &["-c", script], directory.path()).unwrap();
        assert!(output.contains("first"), "{output}");
    }
}

#[test]
fn python_runs_threads_processes_and_loopback_sockets() {
    run("python3", &["-c", PYTHON], &std::env::temp_dir());
}

#[test]
fn node_runs_workers_children_and_loopback_sockets() {
    run("node", &["-e", NODE], &std::env::temp_dir());
}

#[test]
fn a_c_compiler_and_its_program_run() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("hello.c"), HELLO_C).unwrap();

    if run("cc", &["-O1", "-o", "hello", "hello.c"], directory.path()).is_some() {
        assert_eq!(run("sh", &["-c", "./hello"], directory.path()).unwrap(), "hello\n");
    }
}

#[test]
fn a_rust_compiler_and_its_program_run() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("hello.rs"), HELLO_RUST).unwrap();

    if run("rustc", &["--edition", "2024", "hello.rs"], directory.path()).is_some() {
        assert_eq!(run("sh", &["-c", "./hello"], directory.path()).unwrap(), "hello\n");
    }
}

#[test]
fn debuggers_trace_their_children() {
    let directory = tempfile::tempdir().unwrap();

    run("strace", &["-f", "-o", "trace", "sh", "-c", "true | true"], directory.path());
    let gdb = ["-nx", "-batch", "-ex", "run", "--args", "true"];
    if let Some(output) = run("gdb", &gdb, directory.path()) {
        assert!(output.contains("exited normally"), "{output}");
    }
}
