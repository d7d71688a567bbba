//! `ferrolock run`: takes the lock, runs the command, releases.

mod client;
mod helpers;
mod judge;
mod limit;
mod nesting;
mod successors;
mod supervise;
mod target;
mod terms;
mod waiting;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ferrolock::{AnyGuard, Client, HoldState, LockName};

use self::helpers::Helpers;
use self::limit::Limit;
use self::supervise::{Start, Supervisor, Verdict};
use self::target::{Granted, LockKind, Target};
use self::terms::Terms;
use self::waiting::Obtained;
use crate::address::Address;
use crate::exit::{self, Failure};
use crate::process::child::End;
use crate::process::handles;
use crate::process::shim::Fate;
use crate::process::signals::{self, Signals};
use crate::program;
use crate::report::{Event, Report, Style};

/// Runs a command while holding a lock
#[derive(Debug, Args)]
#[command(after_long_help = MORE, after_help = "See 'ferrolock run --help' for exit codes and examples.")]
pub(crate) struct RunArgs {
    /// The lock's name: whoever uses the same name at the same address takes turns
    name: String,

    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Where the locks are: file:PATH, redis://HOST, rediss://HOST or unix:PATH
    ///
    /// Without it the variable FERROLOCK_URL is used (it does not show a password in the list of processes), and without
    /// that a store of the user's own on this machine.
    #[arg(long)]
    url: Option<String>,

    /// A further name, of the same kind: the command runs while all are held; may be given more than once
    #[arg(long, value_name = "NAME")]
    also: Vec<String>,

    /// What kind of lock it is: all who use a name must use the same (read and write are one kind)
    #[arg(long, value_enum, value_name = "KIND", default_value_t = LockKind::Lock)]
    kind: LockKind,

    /// Does not wait for a lock that is busy: exits with 75, or with 69 if there is no answer within 3s
    #[arg(long = "try", conflicts_with = "wait")]
    does_try: bool,

    /// The longest time to wait, connecting included: exits with 75 then, or with 69 if there is no answer at the end;
    /// without it, as long as it takes
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,

    /// How soon others may take over after a crash; renewed while the command runs
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    lease: Duration,

    /// The longest time the command may run: TERM the grace before its end, KILL at its end, and exit code 76
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_hold: Option<Duration>,

    /// Keeps the name taken so long after a success, against machines whose clocks are late
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    hold_after: Option<Duration>,

    /// What happens to the command when the lock is lost
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnLost::Term)]
    on_lost: OnLost,

    /// The time between TERM and KILL [default: 10s, or a third of the lease or half of --max-hold if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    grace: Option<Duration>,

    /// The exit code for a lock that is busy
    #[arg(long, value_name = "N", default_value_t = exit::BUSY)]
    conflict_exit_code: u8,

    /// What those who wait are shown as the holder [default: the command's name]
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    /// Says nothing but what went wrong; a busy lock is told by the exit code only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,

    /// Writes every event to the error output, as one line of JSON each
    #[arg(long)]
    json: bool,
}

/// The signal's number, on every system.
const KILL: i32 = 9;

/// What happens to the command when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnLost {
    /// It gets TERM, and after the grace KILL
    Term,
    /// It gets KILL when it would get TERM; the end of --max-hold begins with TERM all the same
    Kill,
    /// It goes on; only the exit code tells
    Warn,
}

const MORE: &str = "\
The command gets a process group of its own, the terminal, and the signals that ferrolock gets: HUP, INT, QUIT, TERM, \
USR1, USR2, ALRM, VTALRM, PROF, XCPU, XFSZ, IO, URG, PWR, STKFLT, WINCH, TSTP and CONT. What the keys of the terminal \
send, as Ctrl-C does, goes to the command alone. Whatever else ends ferrolock ends the command.

When the lock cannot be renewed, the command gets TERM the grace before the deadline (up to a quarter of the grace \
later, if a last renewal is tried), and its whole group KILL at the deadline, which lies before the end of the lease. \
When the lock was removed or taken over, it gets TERM at once and KILL after the grace. If ferrolock itself is killed, \
a second process of ours, lease-shim, kills the group at once; if ferrolock is stopped, at the deadline, but not with \
--on-lost warn. Both the command's process and lease-shim are there before the lock is, and wait with ferrolock.

--wait and --try are limits for all that comes before the command: connecting, and every question to the server or the \
store. At the end of the limit a lock that is busy is 75, and no answer is 69, also if the lock was busy before. If the \
server was asked for the lock and has not answered, ferrolock stays up to 350ms longer, to give back what is granted \
late. --wait 0s is --try. Without either, connecting has 5s, and the lock is waited for until the server has not \
answered for 30s.

The lock is released when the command ends: what it leaves running in the background has no lock. What leaves the \
group, as daemons do, is not followed.

Durations are like 500ms, 90s, 5m, '1h 30m'. The lease is at least 1s, the grace at most half of it.

Environment of the command:
  FERROLOCK_NAME     the lock's name, without those of --also
  FERROLOCK_OWNER    who holds it, as the server shows it; running the same name inside ends with 64
  FERROLOCK_OWNERS   the same of all runs around it and of all names, the innermost last
  FERROLOCK_FENCE    with --kind fenced: the number of this grant, which only grows; with --also one for
                     each name, as they were given; else empty
  FERROLOCK_ADDRESS  where the lock is, without credentials
  FERROLOCK_URL      as it was

Exit code:
  the command's own, or 128+N if signal N ended it; else
  64   the arguments do not make sense, or the command would wait for itself
  69   the server or the store cannot be reached, does not answer in time, or says no
  71   the system refuses a process of ours
  75   the lock is busy (with --try), or was to the end (with --wait); see --conflict-exit-code
  76   the lock was lost while the command ran, or --max-hold was over
  126  the command cannot be executed
  127  the command was not found
  128+N  signal N came while ferrolock waited for the lock
ferrolock ends with these codes itself, by no signal: a shell that looks for a death by Ctrl-C sees a plain 130.

SIGPIPE ends the command as usual, also if ferrolock was started to ignore it. As the first process of a container, \
ferrolock does not collect the processes that others leave: start the container with an init, as docker run --init does.

Examples:
  ferrolock run nightly -- ./report.sh --all
      waits until no other run is under way on this machine
  ferrolock run --try --quiet nightly -- ./report.sh
      for cron: skips this time if the last run is not over
  ferrolock run --try --hold-after 5m nightly -- ./report.sh
      for cron on many machines: a machine whose clock is late finds the name taken
  ferrolock run --also ledger --also mail nightly -- ./report.sh
      while no other run has any of the three
  ferrolock run --kind read catalog -- ./export; ferrolock run --kind write catalog -- ./import
      many exports at a time, but none beside an import
  FERROLOCK_URL=redis://:secret@db ferrolock run --lease 10s --max-hold 1h import -- ./import
      taken over 10 s after a crash, ended after an hour";

/// Runs the command under the lock; returns the exit code of the whole run.
pub(crate) fn cmd_run(args: RunArgs) -> ExitCode {
    signals::unblock();
    let style = match (args.json, args.quiet) {
        (true, _) => Style::Json,
        (_, true) => Style::Quiet,
        _ => Style::People,
    };
    let mut report = Report::new(style, &args.name);
    let outcome = Plan::make(args).and_then(|plan| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|why| system("cannot start", &why))?;
        let outcome = runtime.block_on(plan.carry_out(&mut report));
        // Not dropped: it would wait for a thread that hangs in the system's resolver, which may take a minute.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            report.fail(&failure);
            ExitCode::from(failure.code)
        }
    }
}

/// The arguments, checked; the command is found, and nothing is taken yet.
#[derive(Debug)]
struct Plan {
    /// The lock's name, and those that are held with it.
    names: Vec<String>,
    kind: LockKind,
    program: PathBuf,
    words: Vec<OsString>,
    /// The handles that were open before we opened any: the command inherits them.
    inherited: Vec<RawFd>,
    address: Address,
    limit: Limit,
    terms: Terms,
    hold_after: Option<Duration>,
    conflict_exit_code: u8,
    label: String,
}

impl Plan {
    fn make(args: RunArgs) -> Result<Self, Failure> {
        let limit = Limit::begin(args.does_try, args.wait);
        let Some(word) = args.command.first() else {
            return Err(Failure::usage("no command is given; write it after --"));
        };
        for name in args.also.iter().chain([&args.name]) {
            if let Err(why) = LockName::new(name) {
                return Err(Failure::usage(why.to_string()));
            }
        }
        if args.max_hold.is_some_and(|limit| limit.is_zero()) {
            return Err(Failure::usage("a --max-hold of zero leaves no time to run"));
        }
        let times = [
            ("--lease", Some(args.lease)),
            ("--max-hold", args.max_hold),
            ("--hold-after", args.hold_after),
            ("--wait", args.wait),
        ];
        for (option, time) in times {
            terms::check_max(option, time)?;
        }
        let terms = Terms::new(args.lease, args.grace, args.max_hold, args.on_lost)?;
        let program = program::find(word, std::env::var_os("PATH"))?;
        Ok(Self {
            label: args.label.unwrap_or_else(|| label_of(&program)),
            names: [vec![args.name], args.also].concat(),
            kind: args.kind,
            program,
            words: args.command,
            inherited: handles::open_now(),
            address: Address::choose(args.url)?,
            limit,
            terms,
            hold_after: args.hold_after.filter(|time| !time.is_zero()),
            conflict_exit_code: args.conflict_exit_code,
        })
    }

    async fn carry_out(self, report: &mut Report) -> Result<u8, Failure> {
        let mut interrupts =
            Signals::ending().map_err(|why| system("cannot hear signals", &why))?;
        let (mut helpers, mut connected) = (Helpers::none(), None);
        let obtaining = async {
            let client: &Client =
                connected.insert(client::connect(&self.address, &self.terms, &self.limit).await?);
            let lock = self.lock(client);
            let nesting = nesting::refuse(&lock);
            self.limit.keep(&self.address, nesting).await?;
            let obtained = waiting::obtain(&lock, &self.limit, &self.address, report).await?;
            Ok((client.clone(), obtained))
        };
        let starting = async {
            helpers = Helpers::start(&self).map_err(|why| supervise::refusal(&why))?;
            Ok::<_, Failure>(())
        };
        // Connecting begins first: it takes longest, and goes on in another thread.
        let both = async { tokio::try_join!(biased; obtaining, starting) };
        let obtained = tokio::select! {
            biased;
            signal = interrupts.next() => Err(signal),
            obtained = both => Ok(obtained.map(|(obtained, ())| obtained)),
        };
        let code = match obtained {
            Ok(Ok((client, Obtained::Granted(granted)))) => {
                self.run(&client, granted, helpers, interrupts, report)
                    .await
            }
            Ok(Ok((_, Obtained::Busy(holders)))) => {
                helpers.end().await;
                let holders = holders.as_deref();
                report.tell(&Event::Busy { holders });
                Ok(self.conflict_exit_code)
            }
            Ok(Err(failure)) => {
                helpers.end().await;
                Err(failure)
            }
            Err(signal) => {
                helpers.end().await;
                let signal = signal.as_raw();
                report.tell(&Event::Interrupted {
                    signal: &signals::name(signal),
                });
                Ok(exit::by_signal(signal))
            }
        };
        if let Some(client) = connected {
            client::leave(&client).await;
        }
        code
    }

    fn lock(&self, client: &Client) -> Target {
        let max_hold = self.terms.max_hold;
        Target::new(client, self.kind, &self.names, &self.label, max_hold)
    }

    /// Runs the command once the lock is ours, and releases the lock.
    async fn run(
        &self,
        client: &Client,
        granted: Granted,
        helpers: Helpers,
        signals: Signals,
        report: &mut Report,
    ) -> Result<u8, Failure> {
        let Granted {
            guard,
            owners,
            fences,
        } = granted;
        let (address, owners) = (self.address.shown(), owners.join(" "));
        let owner = owners.split(' ').next().unwrap_or_default().to_owned();
        report.tell(&Event::Acquired {
            owner: &owner,
            address: &address,
        });
        tracing::info!(%owner, "acquired");
        let environment = [
            (
                "FERROLOCK_NAME",
                self.names.first().cloned().unwrap_or_default(),
            ),
            (
                "FERROLOCK_OWNERS",
                [nesting::outer_owners(), owners].concat(),
            ),
            ("FERROLOCK_OWNER", owner),
            // Empty where the kind has none: a run around this one may have had one.
            ("FERROLOCK_FENCE", fences.join(" ")),
            ("FERROLOCK_ADDRESS", address),
        ];
        let started =
            Supervisor::start(self, client, &guard, helpers, signals, environment, report).await;
        let mut supervisor = match started {
            Ok(Start::Running(supervisor)) => supervisor,
            Ok(Start::TooLate(state)) => return Ok(self.not_started(state, report)),
            Err(why) => {
                let _ = guard.unlock().await;
                return Err(match why.kind() {
                    ErrorKind::BrokenPipe => Failure::new(
                        exit::SYSTEM,
                        "the command's process was killed before it could begin; try again",
                    ),
                    _ => system("cannot start the command", &why),
                });
            }
        };
        let verdict = supervisor.until_the_end(&guard, report).await;
        let mut shim = supervisor.dismiss();
        let verdict = match verdict {
            // The shim may have killed it, and may be about to end.
            Verdict::Ended(End::Signal(KILL)) if shim.ended().await == Fate::HasKilled => {
                report.tell(&Event::Signalled {
                    signal: "KILL",
                    reason: "its deadline was over before the next one was known",
                });
                Verdict::Lost
            }
            other => other,
        };
        let code = self.release(guard, verdict, report).await;
        shim.ended().await;
        code
    }

    /// The lock was lost between the grant and the command's first step.
    fn not_started(&self, state: HoldState, report: &mut Report) -> u8 {
        let reason = match state {
            HoldState::Lost(reason) => reason.to_string(),
            _ => "it was released".to_owned(),
        };
        let reason = format!("{reason}; the command was not started: try again");
        report.tell(&Event::Lost { reason: &reason });
        exit::LOST
    }

    async fn release(
        &self,
        guard: AnyGuard,
        verdict: Verdict,
        report: &mut Report,
    ) -> Result<u8, Failure> {
        let end = match verdict {
            // At the end of `--max-hold` the lock is still ours: we release it before we end.
            Verdict::Lost if guard.state() == HoldState::Held => {
                let limit = guard.remaining();
                let released = tokio::time::timeout(limit, guard.unlock()).await;
                if matches!(released, Ok(Ok(_))) {
                    report.tell(&Event::Released { held_seconds: None });
                }
                return Ok(exit::LOST);
            }
            // The drop sends a release all the same; we do not wait for a server that may be gone.
            Verdict::Lost => return Ok(exit::LOST),
            Verdict::NotRun(failure) => {
                let _ = guard.unlock().await;
                return Err(failure);
            }
            Verdict::Ended(end) => end,
        };
        let stays = self.hold_after.filter(|_| end.is_success());
        let released = match stays {
            Some(time) => guard.unlock_after(time).await,
            None => guard.unlock().await.map(drop),
        };
        let held_seconds = stays.map(|time| time.as_secs_f64());
        match released {
            Ok(()) => {
                tracing::info!("released");
                report.tell(&Event::Released { held_seconds });
            }
            Err(error) if error.kind() == ferrolock::ErrorKind::Lost => {
                report.tell(&Event::Lost {
                    reason: &reason_of(&error),
                });
                return Ok(exit::LOST);
            }
            Err(error) => {
                let message =
                    format!("the release is not confirmed, so its lease ends it: {error}");
                report.tell(&Event::Warning { message: &message });
            }
        }
        Ok(end.exit_code())
    }
}

fn reason_of(error: &ferrolock::Error) -> String {
    error
        .lost_reason()
        .map_or_else(|| error.to_string(), |reason| reason.to_string())
}

fn system(what: &str, why: &io::Error) -> Failure {
    let message = format!("{what}: {why}; check the limits on processes and open files");
    Failure::new(exit::SYSTEM, message)
}

/// The program's name, as far as it can be a label.
fn label_of(program: &Path) -> String {
    let name = program.file_name().unwrap_or(program.as_os_str());
    let name = name.to_string_lossy();
    name.chars().filter(|c| !c.is_control()).take(60).collect()
}

/// Reads `90s`, `5m`, `1h 30m`; the error message shows these forms.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|why| format!("{why}: write it like 500ms, 90s, 5m or '1h 30m'"))
}
