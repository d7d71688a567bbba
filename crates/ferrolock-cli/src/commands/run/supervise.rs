//! Runs the command: starts it behind its gate, passes signals on, and ends it in time.

use std::io;
use std::time::Duration;

use ferrolock::{AnyGuard, Client, HoldState};
use rustix::process::{Pid, Signal, kill_current_process_group};
use tokio::signal::unix;

use super::Plan;
use super::helpers::Helpers;
use super::judge::{Judge, Step, View, Why};
use super::successors::Successors;
use crate::clock::Moment;
use crate::exit::Failure;
use crate::process::child::{self, End};
use crate::process::gate::{self, Gate};
use crate::process::group::{self, Group};
use crate::process::orders::Order;
use crate::process::shim::{Dismissed, Fate, Shim};
use crate::process::signals::{self, Signals};
use crate::process::terminal::{Terminal, is_under_job_control};
use crate::report::{Event, Report};

/// Deadlines that differ by less are the same, read twice.
const DEADLINE_GRAIN: Duration = Duration::from_millis(1);

/// Whether the command was started.
#[derive(Debug)]
pub(super) enum Start {
    Running(Box<Supervisor>),
    /// The lock was lost before the command's first step: the command was not started.
    TooLate(HoldState),
}

/// How a run ended.
#[derive(Debug)]
pub(super) enum Verdict {
    Ended(End),
    Lost,
    /// The system refused to execute the command.
    NotRun(Failure),
}

/// The command and everything that supervises it.
#[derive(Debug)]
pub(super) struct Supervisor {
    client: Client,
    gate: Gate,
    group: Group,
    shim: Shim,
    successors: Successors,
    /// The last deadline that was sent to the shim.
    told: Option<Order>,
    terminal: Option<Terminal>,
    judge: Judge,
    signals: Signals,
    children: unix::Signal,
    /// Whether we passed a TSTP on to the command: when it stops, we stop too.
    is_stop_passed_on: bool,
    is_to_resume: bool,
    /// How often the command has asked for a terminal that it cannot have.
    hang_ups: u8,
    /// The shim was killed, and the system refuses another.
    is_alone: bool,
    end: Option<End>,
    /// When we saw that it had ended.
    ended: Moment,
}

impl Supervisor {
    /// Starts the command. An error: nothing runs.
    pub(super) async fn start(
        plan: &Plan,
        client: &Client,
        guard: &AnyGuard,
        helpers: Helpers,
        signals: Signals,
        environment: [(&'static str, String); 5],
        report: &mut Report,
    ) -> io::Result<Start> {
        let judge = Judge::new(plan.terms, Moment::now());
        // First of all: signals that come from here on are passed on to the command.
        let (signals, children) = (signals.and_forwarded()?, Signals::of_children()?);
        let (shim, gate) = helpers.ready(plan).await?;
        let mut supervisor = Self {
            client: client.clone(),
            group: gate.group(),
            gate,
            shim,
            successors: Successors::of_one_started(Moment::now()),
            told: None,
            terminal: Terminal::open(),
            judge,
            signals,
            children,
            is_stop_passed_on: false,
            is_to_resume: false,
            hang_ups: 0,
            is_alone: false,
            end: None,
            ended: Moment::now(),
        };
        if let Err(why) = supervisor.prepare(guard).await {
            supervisor.abandon().await;
            return Err(why);
        }
        // We may have been stopped since the grant, for longer than the lease. Nothing happens between this check and the
        // opening of the gate; if we are gone before, the gate ends when its socket is closed.
        if !guard.is_held() {
            supervisor.abandon().await;
            return Ok(Start::TooLate(guard.state()));
        }
        if let Err(why) = supervisor.open_gate(&environment) {
            supervisor.abandon().await;
            return Err(why);
        }
        let pid = supervisor.pid().as_raw_pid();
        report.tell(&Event::Started { pid });
        tracing::info!(pid, program = %plan.program.display(), "started");
        Ok(Start::Running(Box::new(supervisor)))
    }

    /// Before the command's first step: tells the shim which group to kill and when, and gives the command the terminal.
    async fn prepare(&mut self, guard: &AnyGuard) -> io::Result<()> {
        let deadline = self.order(view(guard));
        self.shim
            .entrust(self.client.lifeline(), self.group, deadline)
            .await?;
        if let Some(terminal) = &mut self.terminal {
            terminal.offer(self.group);
        }
        Ok(())
    }

    fn open_gate(&mut self, environment: &[(&str, String)]) -> io::Result<()> {
        // Another process may have stopped it while we waited.
        let _ = self.group.signal(Signal::CONT);
        self.gate.open(environment)
    }

    /// There will be no command: ends the shim and the gate, so that no process of ours is left.
    async fn abandon(mut self) {
        self.take_terminal();
        let mut shim = self.shim.dismiss(self.children);
        if let Ok(mut children) = Signals::of_children() {
            self.gate.end(&mut children).await;
        }
        shim.ended().await;
    }

    /// Supervises the command until it has ended; if the lock was lost, until no process of its group is left.
    pub(super) async fn until_the_end(&mut self, guard: &AnyGuard, report: &mut Report) -> Verdict {
        loop {
            let view = view(guard);
            let step = self.judge.look(view);
            self.act(step, guard, report);
            self.inform_shim(view, guard, report);
            self.resume();
            self.look_at_command(report);
            if self.is_over(guard, report) {
                return self.verdict(guard);
            }
            if self.is_to_resume {
                continue;
            }
            let next = self.next_look(view, guard).since(Moment::now());
            let is_lost = matches!(view.state, HoldState::Lost(_));
            tokio::select! {
                biased;
                signal = self.signals.next() => self.pass_on(signal),
                _ = self.children.recv() => {}
                _ = guard.lost(), if !is_lost => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// Takes the terminal back from the command, and tells the shim to end without killing the group.
    pub(super) fn dismiss(mut self) -> Dismissed {
        let had_time = matches!(self.end, Some(End::Code(_))) && !self.judge.is_sentenced();
        match &mut self.terminal {
            Some(terminal) if !had_time => terminal.take_back_as_it_was(),
            _ => self.take_terminal(),
        }
        self.shim.dismiss(self.children)
    }

    fn pid(&self) -> Pid {
        self.gate.pid()
    }

    fn act(&mut self, step: Step, guard: &AnyGuard, report: &mut Report) {
        match step {
            Step::Nothing => {}
            Step::Renew => {
                // Whether it succeeded shows in the guard.
                tokio::spawn(guard.renew(self.judge.lease()));
            }
            Step::Warn(reason) => {
                report.tell(&Event::Lost {
                    reason: &reason.to_string(),
                });
            }
            Step::Term(why) => {
                self.send(Signal::TERM, "TERM", why, report);
                // A process that is stopped could not act on it.
                let _ = self.group.signal(Signal::CONT);
            }
            Step::Kill(why) => self.send(Signal::KILL, "KILL", why, report),
        }
    }

    fn send(&mut self, signal: Signal, name: &'static str, why: Why, report: &mut Report) {
        let sent = self.group.signal(signal);
        let reason = why.to_string();
        match sent {
            Ok(()) => report.tell(&Event::Signalled {
                signal: name,
                reason: &reason,
            }),
            Err(error) => {
                let message = format!("{reason}: the command cannot be sent {name}: {error}");
                report.tell(&Event::Warning { message: &message });
            }
        }
    }

    fn order(&self, view: View) -> Order {
        self.judge
            .shim_deadline(view)
            .map_or(Order::NoDeadline, Order::Deadline)
    }

    fn inform_shim(&mut self, view: View, guard: &AnyGuard, report: &mut Report) {
        match self.shim.fate() {
            Fate::Alive if self.shim.wake() => {
                let message = "the process that ends the command with us was stopped: it goes on";
                report.tell(&Event::Warning { message });
            }
            Fate::Alive => {}
            // Then the command is dead, and the verdict says why.
            Fate::HasKilled => return,
            Fate::Ended => {
                if self.needs_shim(guard) && self.successors.due() <= Moment::now() {
                    self.replace_shim(view, report);
                }
                return;
            }
        }
        let order = self.order(view);
        let is_known = match (self.told, order) {
            (Some(Order::Deadline(known)), Order::Deadline(new)) => {
                new.since(known).max(known.since(new)) < DEADLINE_GRAIN
            }
            (known, new) => known == Some(new),
        };
        // If the pipe is full, we try again at the next look.
        if !is_known && self.shim.tell(order).is_ok() {
            self.told = Some(order);
        }
    }

    /// Whether a command runs that must be killed if we are.
    fn needs_shim(&self, guard: &AnyGuard) -> bool {
        self.end.is_none() && !self.judge.is_sentenced() && guard.is_held()
    }

    fn replace_shim(&mut self, view: View, report: &mut Report) {
        self.successors.tried(Moment::now());
        let order = self.order(view);
        let orders = [Order::Group(self.group), order];
        let message = match Shim::start_with(self.client.lifeline(), &orders) {
            Ok(shim) => {
                std::mem::replace(&mut self.shim, shim).bury();
                self.told = Some(order);
                self.is_alone = false;
                "the process that ends the command with us was killed: another is started"
                    .to_owned()
            }
            // We try again later, and warn only once.
            Err(_) if self.is_alone => return,
            Err(why) => {
                self.is_alone = true;
                format!(
                    "the process that ends the command with us was killed, and no other can be started: {why}"
                )
            }
        };
        report.tell(&Event::Warning { message: &message });
    }

    fn pass_on(&mut self, signal: Signal) {
        match signal {
            Signal::CONT => self.is_to_resume = true,
            Signal::TSTP => {
                self.is_stop_passed_on = true;
                let _ = self.group.signal(signal);
            }
            _ => {
                let _ = self.group.signal(signal);
            }
        }
        tracing::info!(signal = %signals::name(signal.as_raw()), "passed on to the command");
    }

    fn look_at_command(&mut self, report: &mut Report) {
        if let Ok(Some(signal)) = child::stop_of(self.pid()) {
            self.follow_stop(signal, report);
        }
        if self.end.is_none() {
            self.end = child::end_of(self.pid()).unwrap_or(Some(End::Signal(9)));
            if let Some(end) = self.end {
                self.ended = Moment::now();
                let (code, signal) = match end {
                    End::Code(code) => (Some(code), None),
                    End::Signal(signal) => (None, Some(signals::name(signal))),
                };
                let signal = signal.as_deref();
                report.tell(&Event::Ended { code, signal });
            }
        }
    }

    /// The command has stopped. If the terminal stopped it, or a signal that we passed on, we stop too; if another process
    /// stopped only the command, we do not.
    fn follow_stop(&mut self, signal: Signal, report: &mut Report) {
        let wants_terminal = signal == Signal::TTIN || signal == Signal::TTOU;
        let is_lent = self.terminal.as_ref().is_some_and(Terminal::is_lent);
        if wants_terminal
            && !is_lent
            && let Some(terminal) = &mut self.terminal
            && terminal.lend(self.group)
        {
            let _ = self.group.signal(Signal::CONT);
            return;
        }
        let is_for_us = is_lent || wants_terminal || std::mem::take(&mut self.is_stop_passed_on);
        if !is_for_us {
            return;
        }
        if is_under_job_control() {
            self.take_terminal();
            // Our parent sees by which signal we stopped: a `ferrolock` around us may then lend us the terminal.
            let asks_for_it = wants_terminal && !signals::is_ignored(Signal::TTIN);
            let stop = if asks_for_it {
                Signal::TTIN
            } else {
                Signal::STOP
            };
            // We are stopped inside this call, until another process continues us.
            let _ = kill_current_process_group(stop);
            self.is_to_resume = true;
        } else if wants_terminal && self.terminal.is_some() {
            self.hang_up(report);
        } else if signal == Signal::TSTP {
            // No shell could continue us. In that case the system too lets no process be stopped by its terminal.
            let _ = self.group.signal(Signal::CONT);
        }
    }

    /// The command waits for a terminal that it can never have, like a group that lost its shell: the system sends those a
    /// HUP. A command that asks again gets TERM, then KILL.
    fn hang_up(&mut self, report: &mut Report) {
        let (signal, name) = match self.hang_ups {
            0 => (Signal::HUP, "HUP"),
            1 => (Signal::TERM, "TERM"),
            _ => (Signal::KILL, "KILL"),
        };
        self.hang_ups = self.hang_ups.saturating_add(1);
        let _ = self.group.signal(signal);
        let _ = self.group.signal(Signal::CONT);
        report.tell(&Event::Signalled {
            signal: name,
            reason: "the command wants the terminal, which is not ours to give",
        });
    }

    /// Continues the command after a stop. The judge has looked at the clock before, so a command whose lock is lost does not
    /// run on.
    fn resume(&mut self) {
        if std::mem::take(&mut self.is_to_resume) {
            if let Some(terminal) = &mut self.terminal {
                terminal.offer(self.group);
            }
            let _ = self.group.signal(Signal::CONT);
        }
    }

    fn take_terminal(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
        }
    }

    /// Whether the run is over.
    ///
    /// A command that ended by itself ends the run, whatever it left in the background. After a loss no process of its group
    /// may run on: those that outlived the leader have until the judge's KILL. The group gets one more KILL at the end in any
    /// case, because a look at a group that still forks may miss a process.
    fn is_over(&mut self, guard: &AnyGuard, report: &mut Report) -> bool {
        if self.end.is_none() {
            return false;
        }
        if !guard.is_held() && !self.judge.is_sentenced() {
            // The shim may have killed the command because of the loss, before we looked.
            let step = self.judge.look(view(guard));
            self.act(step, guard, report);
        }
        if !self.judge.is_sentenced() {
            return true;
        }
        if !self.group.is_gone() {
            return false;
        }
        let _ = self.group.signal(Signal::KILL);
        self.group.is_gone()
    }

    fn next_look(&self, view: View, guard: &AnyGuard) -> Moment {
        let next = self.judge.next_look(view);
        match self.end {
            Some(_) => {
                let since_end = view.now.since(self.ended);
                next.min(view.now.after(group::pause_between_looks(since_end)))
            }
            None if self.needs_shim(guard) && self.shim.fate() == Fate::Ended => {
                next.min(self.successors.due())
            }
            None => next,
        }
    }

    fn verdict(&mut self, guard: &AnyGuard) -> Verdict {
        if let Some(why) = self.gate.refusal() {
            return Verdict::NotRun(refusal(&why));
        }
        let end = match self.end {
            Some(end) if !self.judge.has_lost() && guard.is_held() => end,
            _ => return Verdict::Lost,
        };
        Verdict::Ended(end)
    }
}

/// The failure for a command that the system does not execute.
pub(super) fn refusal(why: &io::Error) -> Failure {
    let message = format!("the command cannot be executed: {why}; check its file and arguments");
    Failure::new(gate::refusal_code(why), message)
}

/// The clock is read first, so the deadline computed from clock and remaining time is never too late.
fn view(guard: &AnyGuard) -> View {
    let now = Moment::now();
    View {
        now,
        state: guard.state(),
        remaining: guard.remaining(),
    }
}
