//! Pairs per second of several processes: with one lock for all, and with a lock for each.

use crate::reference::one_thread;
use crate::report::{Must, Row};
use crate::rounds::{Turns, median, now};
use ferrolock::Client;
use testkit::process::{Child, Role};
use testkit::{LIMIT, Server};

const ROUNDS: usize = 7;
/// How long the processes work in a round: nanoseconds.
const ROUND: u64 = 1_000_000_000;
const PROCESSES: usize = 8;

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    let folder = testkit::store_folder();
    let file = format!("file:{}", folder.path().display());
    let socket = format!("unix:{}", server.socket().display());
    let alone = compare(&file, &socket, 1, Names::Own);
    let apart = compare(&file, &socket, PROCESSES, Names::Own);
    let together = compare(&file, &socket, PROCESSES, Names::One);
    let server = server.kind().name();
    let mut rows = vec![
        alone.rate(
            &format!("one process, `file:` ÷ {server} by Unix socket"),
            Must::Stated,
        ),
        apart.rate(
            &format!("{PROCESSES} processes, a lock each, `file:` ÷ {server} by Unix socket"),
            Must::Stated,
        ),
        together.rate(
            &format!("{PROCESSES} processes on one lock, `file:` ÷ {server} by Unix socket"),
            Must::AtLeast(2.0),
        ),
    ];
    rows.extend(together.shares());
    rows
}

#[derive(Clone, Copy)]
enum Names {
    One,
    Own,
}

/// The figures of both places.
struct Compared {
    rate: Turns,
    /// The longest wait of each round, in milliseconds.
    longest: Turns,
    /// Pairs of each process in `file:`, all rounds together, and on the server.
    served: [Vec<u64>; 2],
}

fn compare(file: &str, server: &str, processes: usize, names: Names) -> Compared {
    let mut crews = [file, server].map(|url| Crew::at(url, processes, names));
    let mut compared = Compared {
        rate: Turns::default(),
        longest: Turns::default(),
        served: [vec![0; processes], vec![0; processes]],
    };
    for round in 0..=ROUNDS {
        let [ours, reference] = [0, 1].map(|place| crews[place].round());
        // The first round warms up.
        if round == 0 {
            continue;
        }
        let rate = |worked: &[Worked]| {
            worked.iter().map(|work| work.pairs).sum::<u64>() as f64 * 1e9 / ROUND as f64
        };
        let longest =
            |worked: &[Worked]| worked.iter().map(|work| work.longest).max().unwrap() as f64 / 1e6;
        compared.rate.push(rate(&ours), rate(&reference));
        compared.longest.push(longest(&ours), longest(&reference));
        for (served, worked) in compared.served.iter_mut().zip([ours, reference]) {
            served
                .iter_mut()
                .zip(worked)
                .for_each(|(sum, work)| *sum += work.pairs);
        }
    }
    compared
}

impl Compared {
    fn rate(&self, what: &str, must: Must) -> Row {
        Row {
            what: format!("pairs/s of {what}"),
            unit: "/s",
            ours: self.rate.ours(),
            reference: Some(self.rate.reference()),
            ratio: Some(self.rate.ratio()),
            must,
        }
    }

    fn shares(&self) -> [Row; 2] {
        let share = |served: &[u64]| {
            *served.iter().min().unwrap() as f64 / *served.iter().max().unwrap() as f64
        };
        let [ours, reference] = [&self.served[0], &self.served[1]].map(|served| share(served));
        [
            Row {
                what: "the same: pairs of the least ÷ of the most served process in `file:`"
                    .to_owned(),
                unit: "",
                ours,
                reference: Some(reference),
                ratio: None,
                must: Must::AtLeast(0.5),
            },
            Row {
                what: "the same: the longest wait of a round, median".to_owned(),
                unit: " ms",
                ours: median(&self.longest.ours),
                reference: Some(median(&self.longest.reference)),
                ratio: None,
                must: Must::Stated,
            },
        ]
    }
}

/// Processes that work in one place.
struct Crew {
    members: Vec<Child>,
}

/// What a process did in a round.
struct Worked {
    pairs: u64,
    /// Nanoseconds.
    longest: u64,
}

impl Crew {
    fn at(url: &str, processes: usize, names: Names) -> Self {
        let member = |number: usize| {
            let name = match names {
                Names::One => "one".to_owned(),
                Names::Own => format!("own/{number}"),
            };
            Child::again("pairs", &[url, &name])
        };
        let mut members: Vec<Child> = (0..processes).map(member).collect();
        for member in &mut members {
            assert_eq!(member.hear(LIMIT), "ready");
        }
        Self { members }
    }

    fn round(&mut self) -> Vec<Worked> {
        let until = (now() + ROUND).to_string();
        self.members
            .iter_mut()
            .for_each(|member| member.say(&until));
        let worked = self.members.iter_mut().map(|member| {
            let said = member.hear(LIMIT);
            let (pairs, longest) = said.split_once(' ').unwrap();
            Worked {
                pairs: pairs.parse().unwrap(),
                longest: longest.parse().unwrap(),
            }
        });
        worked.collect()
    }
}

/// The role of a process: takes the lock and releases it, until the time that its parent names.
pub(crate) fn help(role: &Role) {
    let [url, name] = role.args() else {
        panic!("an address and a name");
    };
    let runtime = one_thread();
    let lock = runtime.block_on(Client::connect(url)).unwrap().lock(name);
    role.say("ready");
    loop {
        let until: u64 = role.hear().parse().unwrap();
        let (mut pairs, mut longest) = (0_u64, 0);
        runtime.block_on(async {
            let mut begun = now();
            while begun < until {
                let guard = lock.lock().await.unwrap();
                let granted = now();
                longest = longest.max(granted - begun);
                guard.unlock().await.unwrap();
                pairs += 1;
                begun = now();
            }
        });
        role.say(&format!("{pairs} {longest}"));
    }
}
