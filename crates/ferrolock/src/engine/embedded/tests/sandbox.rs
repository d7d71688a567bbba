//! What a script can do, cannot do, and how its values are converted.

use super::*;

fn check(source: &str, expected: Value) {
    let engine = MemoryEngine::open(None);
    assert_eq!(eval(&engine, source, &[]), Ok(expected), "{source}");
}

fn check_refused(source: &str, code: &str, message: &str) {
    let engine = MemoryEngine::open(None);
    assert_eq!(
        eval(&engine, source, &[]),
        refused(code, message),
        "{source}"
    );
}

fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::List(items.to_vec())
}

#[test]
fn values_come_back_as_the_servers_send_them() {
    check("return nil", Value::Nil);
    check("return false", Value::Nil);
    check("return true", Value::Int(1));
    check("return 3.99", Value::Int(3));
    check("return -3.99", Value::Int(-3));
    check("return 'a\\0b'", Value::Bytes(b"a\0b".to_vec()));
    check("return {ok = 'fine'}", bytes("fine"));
    check("return function() end", Value::Nil);
    check("return {}", Value::List(Vec::new()));
    check(
        "return {1, {'x', {}}, false, true, nil, 5}",
        list([
            Value::Int(1),
            list([bytes("x"), Value::List(Vec::new())]),
            Value::Nil,
            Value::Int(1),
        ]),
    );
}

#[test]
fn replies_of_commands_become_lua_values() {
    check("return type(redis.call('GET', 'k'))", bytes("boolean"));
    check("return type(redis.call('EXISTS', 'k'))", bytes("number"));
    check("return redis.call('SET', 'k', 'v').ok", bytes("OK"));
    check("return redis.call('SET', 'k', 'v')", bytes("OK"));
    check("return #redis.call('TIME')", Value::Int(2));
    check("return #redis.call('HGETALL', 'k')", Value::Int(0));
}

#[test]
fn numbers_are_written_without_decimals_where_they_have_none() {
    let source = "redis.call('HSET', 'h', 1, 2.5, 1e15, 3) return redis.call('HGETALL', 'h')";
    check(
        source,
        list([
            bytes("1"),
            bytes("2.5"),
            bytes("1000000000000000"),
            bytes("3"),
        ]),
    );
}

#[test]
fn keys_and_arguments_are_texts() {
    let engine = MemoryEngine::open(None);
    let source = "return {KEYS[1], KEYS[2] or 'none', #ARGV, type(ARGV[1]), ARGV[2]}";
    let mut call = text_call(source, &["7"]);
    call.args.push(Arg::Int(-42));

    let reply = run(&engine, call);

    let texts = [
        bytes("k"),
        bytes("none"),
        Value::Int(2),
        bytes("string"),
        bytes("-42"),
    ];
    assert_eq!(reply, Ok(list(texts)));
}

#[test]
fn an_error_reply_ends_the_script_with_its_code() {
    let wrong = "Operation against a key holding the wrong kind of value";
    let source = "redis.call('SET', 'k', 1) redis.call('HLEN', 'k') redis.call('DEL', 'k')";
    let engine = MemoryEngine::open(None);

    assert_eq!(eval(&engine, source, &[]), refused("WRONGTYPE", wrong));
    // What ran before the error stays, as on a server.
    assert_eq!(
        eval(&engine, "return redis.call('GET', 'k')", &[]),
        Ok(bytes("1"))
    );
    check_refused("return {err = 'MY own'}", "MY", "own");
    check_refused("return {1, {err = 'MY own'}}", "MY", "own");
    check_refused("error({err = 'MY own'})", "MY", "own");
    check_refused("error({})", "ERR", "unknown error");
    check_refused("return redis.error_reply('oops')", "ERR", "oops");
    check_refused("return redis.error_reply('-MY own')", "MY", "own");
    check_refused("error('boom')", "ERR", "user_script:1: boom");
    check_refused("error('boom', 0)", "ERR", "boom");
    check_refused("return {err = 'MY two\\r\\nlines'}", "MY", "two  lines");
    check("return {ok = 'two\\nlines'}", bytes("two lines"));
    check("return redis.status_reply('fine')", bytes("fine"));
}

#[test]
fn errors_can_be_caught() {
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let set = "redis.call('SET', 'k', 1) ";
    check(
        &format!("{set} return redis.pcall('HLEN', 'k').err"),
        bytes(wrong),
    );
    check(
        &format!(
            "{set} local ok, why = pcall(redis.call, 'HLEN', 'k') return {{tostring(ok), why}}"
        ),
        list([bytes("false"), bytes(wrong)]),
    );
    check(
        "return select('#', pcall(function() return 1, nil, nil end))",
        Value::Int(4),
    );
    check(
        "local _, why = pcall(function() return missing end) return why",
        bytes("user_script:1: Script attempted to access nonexistent global variable 'missing'"),
    );
}

#[test]
fn commands_want_texts_or_numbers() {
    let one = "Please specify at least one argument for this redis lib call";
    let kind = "Lua redis lib command arguments must be strings or integers";
    check_refused("redis.call()", "ERR", one);
    check_refused("redis.call('GET', {})", "ERR", kind);
    check_refused("redis.call('GET', nil)", "ERR", kind);
    check_refused("redis.call('GET', true)", "ERR", kind);
}

#[test]
fn globals_are_the_listed_ones_and_cannot_change() {
    for name in [
        "os",
        "io",
        "debug",
        "package",
        "require",
        "load",
        "loadstring",
        "dofile",
        "print",
        "getfenv",
        "setfenv",
        "getmetatable",
        "setmetatable",
        "rawget",
        "rawset",
        "coroutine",
        "collectgarbage",
        "xpcall",
        "_G",
        "newproxy",
        "module",
    ] {
        let message = format!(
            "user_script:1: Script attempted to access nonexistent global variable '{name}'"
        );
        check_refused(&format!("return {name}"), "ERR", &message);
    }
    let readonly = "user_script:1: Attempt to modify a readonly table";
    for change in [
        "x = 1",
        "KEYS = {}",
        "redis = 1",
        "redis.call = 1",
        "string.x = 1",
        "math.random = 1",
        "table.insert = nil",
    ] {
        check_refused(change, "ERR", readonly);
    }
    check(
        "return type(string.dump) .. type(('').dump)",
        bytes("nilnil"),
    );
    check("KEYS[1] = 'mine' return KEYS[1]", bytes("mine"));
}

#[test]
fn libraries_work() {
    check(
        "return string.format('%d%03d', 17, 5) .. ('x'):rep(3)",
        bytes("17005xxx"),
    );
    check(
        "local t = {3, 1, 2} table.sort(t) return t",
        list([1, 2, 3].map(Value::Int)),
    );
    check("return {unpack({1, 2})}", list([1, 2].map(Value::Int)));
    check("return math.floor(-0.5)", Value::Int(-1));
    check("return tonumber('30') + 1", Value::Int(31));
    check(
        "local n = 0 for _, v in ipairs({1, 2}) do n = n + v end return n",
        Value::Int(3),
    );
    check_refused("assert(false, 'no')", "ERR", "user_script:1: no");
}

#[test]
fn random_numbers_are_the_sequence_of_the_servers() {
    let engine = MemoryEngine::open(None);
    let next = |source: &str| eval(&engine, source, &[]).unwrap();

    assert_eq!(next("return math.random() * 1000000"), Value::Int(396_464));
    assert_eq!(
        next(
            "return {math.random(100), math.random(100), math.random(5, 9), math.random(1000000)}"
        ),
        list([85, 36, 7, 318_693].map(Value::Int))
    );
    assert_eq!(next("return math.random() * 1000000"), Value::Int(886_428));
    assert_eq!(
        next("math.randomseed(7) return {math.random(100), math.random(100)}"),
        list([27, 69].map(Value::Int))
    );
    check_refused(
        "local n = math.random(0) return n",
        "ERR",
        "user_script:1: bad argument #1 to 'random' (interval is empty)",
    );
}

#[test]
fn a_script_that_never_ends_is_ended() {
    let engine = MemoryEngine::open(None);
    let limit = refused("LIMIT", "the script ran more than 10000000 steps");

    assert_eq!(eval(&engine, "while true do end", &[]), limit);
    let stubborn = "while true do pcall(function() while true do end end) end";
    assert_eq!(eval(&engine, stubborn, &[]), limit);
    assert_eq!(eval(&engine, "return 1", &[]), Ok(Value::Int(1)));
}

#[test]
fn the_limit_of_steps_is_for_one_run() {
    let engine = MemoryEngine::open(None);
    let call = text_call("for i = 1, 3000000 do end return 1", &[]);

    for _ in 0..8 {
        assert_eq!(run(&engine, call.clone()), Ok(Value::Int(1)));
    }
}

#[test]
fn a_script_that_takes_too_much_memory_is_ended() {
    let engine = MemoryEngine::open(None);
    let limit = refused("LIMIT", "the script took more than 67108864 bytes");

    for source in [
        "return string.rep('x', 100000000)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 9000000 do t[i] = i end return #t",
    ] {
        assert_eq!(eval(&engine, source, &[]), limit, "{source}");
        assert_eq!(eval(&engine, "return 1", &[]), Ok(Value::Int(1)));
    }
}

#[test]
fn endless_nesting_is_refused() {
    check_refused(
        "local t = {} t[1] = t return t",
        "ERR",
        "reached lua stack limit",
    );
    let engine = MemoryEngine::open(None);
    let source = "local function f() return 1 + f() end return f()";
    let reply = eval(&engine, source, &[]);
    assert!(
        matches!(&reply, Err(Failure::Refused { code, message })
            if code == "ERR" && message.contains("stack overflow")),
        "{reply:?}"
    );
}

#[test]
fn a_script_that_does_not_compile_is_refused() {
    let message =
        "Error compiling script (new function): user_script:1: unexpected symbol near 'then'";
    check_refused("if then", "ERR", message);
    let engine = MemoryEngine::open(None);
    assert!(eval(&engine, "\u{1b}Lua", &[]).is_err());
}
