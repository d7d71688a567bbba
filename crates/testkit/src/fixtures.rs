//! What the real Redisson did with plain and non-reentrant locks, step by step.
//!
//! The server is empty before a scenario, every scenario has fresh clients, and steps run in order. Client
//! uuids are written `U` and `V` (`U:42` and `U:43` share a client), request ids `<hex32>`. A step's
//! keyspace is the whole keyspace at its end.

use crate::keyspace::Value;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

const LOCK: &str = include_str!("../fixtures/redisson-lock.json");

/// All scenarios.
pub fn scenarios() -> Vec<Scenario> {
    recording().scenarios
}

/// All scenarios, with where they come from.
pub fn recording() -> Recording {
    serde_json::from_str(LOCK).expect("the fixtures have the documented form")
}

/// A file of scenarios.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The library that was recorded, with its version.
    pub recorded_from: String,
    /// The server it ran on.
    pub server: String,
    /// What it did.
    pub scenarios: Vec<Scenario>,
}

/// A few calls and their effects.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name, which no other has.
    pub name: String,
    /// `lock` or `non-reentrant lock`.
    pub primitive: String,
    /// What is remarkable about it.
    pub note: Option<String>,
    /// The calls, in order.
    pub steps: Vec<Step>,
}

/// One call and its effects.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// Who calls: `U:42`; `peer` for a plain command that is not Redisson's, `-` for the clock.
    pub owner: String,
    /// The object: `lock orders`.
    pub on: Option<String>,
    /// The call in words; `sleep …`, `wait until …`, `interrupt …`, `redis: …` are what they say.
    pub call: String,
    /// What the caller saw.
    pub reply: Option<Outcome>,
    /// Calls of earlier steps that returned during this one.
    #[serde(default)]
    pub completes: Vec<Completion>,
    /// The whole keyspace at the end of the step.
    pub keyspace: Vec<KeyState>,
    /// Everything published in the step, in order.
    pub messages: Vec<Message>,
    /// Keys written and deleted again within the step; Redisson's private matter.
    #[serde(default)]
    pub transient: Vec<KeyState>,
    /// Commands the clients sent, by kind; for the record, not for comparison.
    #[serde(default)]
    pub commands: BTreeMap<String, u64>,
}

/// What a caller saw.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The call returned.
    Returns(Returned),
    /// The call returned a time in milliseconds, or a negative code.
    ReturnsMs(Millis),
    /// The call threw an exception of this class.
    Throws(String),
    /// The call had not returned by the end of the step.
    Pending(bool),
}

/// A value a call returned.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub enum Returned {
    /// No value.
    Void,
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(i64),
}

impl TryFrom<serde_json::Value> for Returned {
    type Error = String;

    fn try_from(json: serde_json::Value) -> Result<Self, String> {
        match (json.as_bool(), json.as_i64(), json.as_str()) {
            (Some(flag), _, _) => Ok(Self::Flag(flag)),
            (_, Some(number), _) => Ok(Self::Number(number)),
            (_, _, Some("void")) => Ok(Self::Void),
            _ => Err(format!("an unknown return value: {json}")),
        }
    }
}

/// A time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Millis {
    /// Exactly this.
    Exact(i64),
    /// Anything from `min` to `max`.
    Range {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
}

impl Millis {
    /// Whether `millis` is what was recorded.
    pub fn admits(self, millis: i64) -> bool {
        match self {
            Self::Exact(exact) => millis == exact,
            Self::Range { min, max } => (min..=max).contains(&millis),
        }
    }
}

/// The end of a call that had been pending.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// The step that made the call.
    pub step: usize,
    /// Who called.
    pub owner: String,
    /// What the caller saw.
    pub reply: Outcome,
}

/// A key as it was found.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyState {
    /// Its name.
    pub key: String,
    /// What the server's `TYPE` says.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it held.
    pub value: Value,
    /// How long it still lived.
    #[serde(rename = "ttl_ms")]
    pub ttl: Ttl,
}

/// How long a key still lived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub enum Ttl {
    /// Without an end.
    Unlimited,
    /// Between these.
    Within {
        /// The least, with about a second left for a slow machine.
        min: Duration,
        /// The most.
        max: Duration,
    },
}

impl Ttl {
    /// Whether a key with this time to live is as recorded.
    pub fn admits(self, ttl: Option<Duration>) -> bool {
        match (self, ttl) {
            (Self::Unlimited, None) => true,
            (Self::Within { min, max }, Some(ttl)) => (min..=max).contains(&ttl),
            _ => false,
        }
    }
}

impl TryFrom<serde_json::Value> for Ttl {
    type Error = String;

    fn try_from(json: serde_json::Value) -> Result<Self, String> {
        let bound = |name| json[name].as_u64().map(Duration::from_millis);
        match (json.as_str(), bound("min"), bound("max")) {
            (Some("none"), _, _) => Ok(Self::Unlimited),
            (_, Some(min), Some(max)) => Ok(Self::Within { min, max }),
            _ => Err(format!("an unknown time to live: {json}")),
        }
    }
}

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Where.
    pub channel: String,
    /// What.
    pub payload: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_scenario_is_of_a_lock_and_has_a_name_of_its_own() {
        let scenarios = scenarios();
        let names: BTreeSet<_> = scenarios.iter().map(|s| &s.name).collect();

        assert_eq!(scenarios.len(), 35);
        assert_eq!(names.len(), 35);
        assert!(
            scenarios
                .iter()
                .all(|s| ["lock", "non-reentrant lock"].contains(&s.primitive.as_str()))
        );
        assert_eq!(recording().recorded_from, "org.redisson:redisson 4.7.0");
    }

    #[test]
    fn steps_are_numbered_from_one() {
        for scenario in scenarios() {
            let numbers: Vec<_> = scenario.steps.iter().map(|s| s.step).collect();

            assert_eq!(
                numbers,
                (1..=numbers.len()).collect::<Vec<_>>(),
                "{}",
                scenario.name
            );
        }
    }

    #[test]
    fn a_step_tells_reply_keyspace_and_messages() {
        let scenarios = scenarios();
        let plain = scenarios.iter().find(|s| s.name == "lock-unlock").unwrap();
        let [lock, unlock] = &plain.steps[..] else {
            panic!("two steps, not {:?}", plain.steps);
        };

        assert_eq!(lock.owner, "U:42");
        assert_eq!(lock.reply, Some(Outcome::Returns(Returned::Void)));
        assert_eq!(lock.keyspace[0].value, Value::hash([("U:42", "1")]));
        assert!(lock.keyspace[0].ttl.admits(Some(Duration::from_secs(29))));
        assert!(!lock.keyspace[0].ttl.admits(Some(Duration::from_secs(31))));
        assert!(!lock.keyspace[0].ttl.admits(None));
        assert!(unlock.keyspace.is_empty());
        assert_eq!(unlock.messages[0].payload, "0");
    }
}
