//! A process that was forked and has not called `exec`: it has the memory of its parent, and none of its parent's threads.

use testkit::process::{Child, Role};
use testkit::{LIMIT, eventually};

use ferrolock::{Client, ErrorKind};

use crate::stage::{LONG, Store};

/// Opens the store, forks, and reports how its child ended.
pub(crate) fn parent(role: &Role) {
    let [url] = role.args() else {
        panic!("one argument: {role:?}");
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let builder = Client::builder().url(url).watchdog_lease(LONG);
    let client = runtime.block_on(builder.connect()).unwrap();
    let guard = runtime.block_on(client.lock("x").lock()).unwrap();
    role.say("held");
    role.hear();

    let child = fork(|| in_child(url, &client));

    role.say(&format!("{:?}", ended(child)));
    assert!(guard.is_held());
    let other = runtime.block_on(client.lock("y").try_lock());
    assert!(other.unwrap().is_some());
    role.say("goes on");
    role.hear();
}

/// What the child finds, as its exit code.
fn in_child(url: &str, client: &Client) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        match client.lock("x").try_lock().await {
            Err(error) if error.kind() == ErrorKind::Closed => {}
            _ => return 1,
        }
        match Client::connect(url).await {
            Err(error) if error.code() == Some("FORKED") => {}
            _ => return 2,
        }
        0
    })
}

/// Forks a child that exits with the number that `work` returns, without any clean-up.
#[expect(
    unsafe_code,
    reason = "no other thread of this process holds a lock that the child needs: the runtime has one thread, the keeper sleeps, \
              the thread that opened the store has ended, and the C library takes care of its own"
)]
fn fork(work: impl FnOnce() -> i32) -> libc::pid_t {
    // SAFETY: as above.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
            // SAFETY: ends the process, and runs nothing of the parent's.
            unsafe { libc::_exit(code) }
        }
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        child => child,
    }
}

/// The exit code of the child.
fn ended(child: libc::pid_t) -> Option<i32> {
    use rustix::process::{Pid, WaitOptions, waitpid};
    let mut code = None;
    eventually(LIMIT, "the child ends", || {
        let waited = waitpid(Pid::from_raw(child), WaitOptions::NOHANG).unwrap();
        code = waited.and_then(|(_, status)| status.exit_status());
        waited.is_some()
    });
    code
}

#[test]
fn calls_in_a_forked_process_fail_until_it_starts_a_program() {
    let store = Store::new();
    let mut parent = Child::again("forks::parent", &[&store.url()]);
    assert_eq!(parent.hear(LIMIT), "held");
    eventually(LIMIT, "only the threads that stay are left", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", parent.pid())).unwrap();
        let names = threads
            .flatten()
            .map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
        !names
            .into_iter()
            .any(|name| name.starts_with("ferrolock-opens"))
    });

    parent.say("fork");

    assert_eq!(parent.hear(2 * LIMIT), "Some(0)");
    assert_eq!(parent.hear(LIMIT), "goes on");
    parent.kill();
}

/// LMDB opens its file, with write access, so that every program that the process starts inherits the descriptor.
#[tokio::test]
async fn a_program_that_is_started_inherits_nothing_of_the_store() {
    let store = Store::new();
    let client = store.client().await;
    let guard = client.lock("x").lock().await.unwrap();

    let output = std::process::Command::new("ls")
        .args(["-l", "/proc/self/fd"])
        .output()
        .unwrap();

    let open = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = store.path().display().to_string();
    assert!(open.contains("/fd"), "{open}");
    assert!(!open.contains(&path), "{open}");
    guard.unlock().await.unwrap();
}
