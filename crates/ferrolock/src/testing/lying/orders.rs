//! What a test orders for the calls and messages to come, and the log of those that came.

use std::sync::Weak;
use std::time::Duration;

use super::{Call, Lane, Lie, Muffled, Seen};

/// Which calls an order is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    script: Option<&'static str>,
    lane: Option<Lane>,
    key: Option<&'static str>,
}

impl Match {
    pub(crate) fn any() -> Self {
        Self {
            script: None,
            lane: None,
            key: None,
        }
    }

    /// Calls of that script: `lock/acquire`.
    pub(crate) fn script(script: &'static str) -> Self {
        Self {
            script: Some(script),
            ..Self::any()
        }
    }

    /// Of these, the ones on that lane.
    pub(crate) fn on(self, lane: Lane) -> Self {
        Self {
            lane: Some(lane),
            ..self
        }
    }

    /// Of these, the ones that name that key.
    pub(crate) fn naming(self, key: &'static str) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    fn fits(&self, lane: Lane, call: &Call) -> bool {
        self.script.is_none_or(|wanted| wanted == call.script.name)
            && self.lane.is_none_or(|wanted| wanted == lane)
            && self
                .key
                .is_none_or(|wanted| call.keys.iter().any(|key| **key == *wanted))
    }
}

/// What a partition cuts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All lanes, and the subscriptions.
    All,
    Lane(Lane),
}

/// How a partition shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// There is no connection.
    NotSent,
    /// Calls hang, and run when it ends.
    Hang,
}

/// Orders and log.
#[derive(Default)]
pub(super) struct Orders {
    rules: Vec<Rule>,
    random: Option<Random>,
    cuts: Vec<(Reach, Silence)>,
    subscriptions_cut: bool,
    messages_to_drop: u32,
    listen_refusal: Option<&'static str>,
    pub(super) listeners: Vec<Weak<Muffled>>,
    pub(super) hanging: usize,
    pub(super) log: Vec<Seen>,
}

struct Rule {
    which: Match,
    lie: Lie,
    /// How often it is still to be used; `None`: for ever.
    left: Option<u32>,
}

struct Random {
    seed: u64,
    numbers: fastrand::Rng,
    per_mille: u32,
}

impl Orders {
    pub(super) fn add_rule(&mut self, which: Match, lie: Lie, left: Option<u32>) {
        self.rules.push(Rule { which, lie, left });
    }

    pub(super) fn set_random(&mut self, seed: u64, per_mille: u32) {
        self.random = Some(Random {
            seed,
            numbers: fastrand::Rng::with_seed(seed),
            per_mille,
        });
    }

    pub(super) fn seed(&self) -> Option<u64> {
        self.random.as_ref().map(|random| random.seed)
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
        self.random = None;
        self.messages_to_drop = 0;
        self.listen_refusal = None;
    }

    /// What happens to a call: a partition decides first, then an order for one call, then one for all, then the
    /// seed.
    pub(super) fn decide(&mut self, lane: Lane, call: &Call) -> Option<Lie> {
        self.silence(lane)
            .map(|silence| match silence {
                Silence::NotSent => Lie::NotSent,
                Silence::Hang => Lie::Hang,
            })
            .or_else(|| self.take_rule(lane, call))
            .or_else(|| self.random.as_mut()?.lie())
    }

    fn take_rule(&mut self, lane: Lane, call: &Call) -> Option<Lie> {
        let fits = |rule: &Rule| rule.which.fits(lane, call);
        let single = |rule: &Rule| rule.left.is_some();
        let at = self
            .rules
            .iter()
            .position(|rule| fits(rule) && single(rule))
            .or_else(|| self.rules.iter().position(fits))?;
        let rule = &mut self.rules[at];
        let lie = rule.lie.clone();
        rule.left = rule.left.map(|left| left - 1);
        if rule.left == Some(0) {
            self.rules.remove(at);
        }
        Some(lie)
    }

    pub(super) fn cut(&mut self, reach: Reach, silence: Silence) {
        self.cuts.push((reach, silence));
        if reach == Reach::All {
            self.cut_subscriptions();
        }
    }

    pub(super) fn cut_subscriptions(&mut self) {
        self.subscriptions_cut = true;
    }

    /// Ends all cuts; returns the listeners that missed something.
    pub(super) fn heal(&mut self) -> Vec<Weak<Muffled>> {
        self.cuts.clear();
        self.listeners
            .retain(|listener| listener.strong_count() > 0);
        if std::mem::take(&mut self.subscriptions_cut) {
            self.listeners.clone()
        } else {
            Vec::new()
        }
    }

    fn silence(&self, lane: Lane) -> Option<Silence> {
        self.cuts
            .iter()
            .find(|(reach, _)| matches!(reach, Reach::All) || *reach == Reach::Lane(lane))
            .map(|(_, silence)| *silence)
    }

    /// Whether there is no connection: of a lane, or for subscriptions.
    pub(super) fn is_disconnected(&self, lane: Option<Lane>) -> bool {
        match lane {
            Some(lane) => self.silence(lane) == Some(Silence::NotSent),
            None => self.subscriptions_cut,
        }
    }

    pub(super) fn is_anything_cut(&self) -> bool {
        self.cuts
            .iter()
            .any(|(_, silence)| *silence == Silence::NotSent)
    }

    pub(super) fn drop_messages(&mut self, count: u32) {
        self.messages_to_drop += count;
    }

    pub(super) fn lets_message_pass(&mut self) -> bool {
        if self.subscriptions_cut {
            return false;
        }
        if self.messages_to_drop > 0 {
            self.messages_to_drop -= 1;
            return false;
        }
        !self.random.as_mut().is_some_and(Random::strikes)
    }

    pub(super) fn refuse_listen(&mut self, code: &'static str) {
        self.listen_refusal = Some(code);
    }

    pub(super) fn take_listen_refusal(&mut self) -> Option<&'static str> {
        self.listen_refusal.take()
    }
}

impl Random {
    fn strikes(&mut self) -> bool {
        self.numbers.u32(0..1000) < self.per_mille
    }

    fn lie(&mut self) -> Option<Lie> {
        if !self.strikes() {
            return None;
        }
        let time = Duration::from_millis(self.numbers.u64(1..3000));
        Some(match self.numbers.u32(0..8) {
            0 => Lie::NotSent,
            1 => Lie::DropCall,
            2 => Lie::DropReply,
            3 => Lie::Late(time),
            4 => Lie::DelayCall(time),
            5 => Lie::DelayReply(time),
            6 => Lie::Refuse("BUSY"),
            _ => Lie::Refuse("LOADING"),
        })
    }
}
