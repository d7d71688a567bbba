-- Runs a batch of calls and tells what each saw; the same text on a server and on the embedded engine.
-- ARGV  1 who runs it (server, embedded), 2 keys to show afterwards: how many, then each,
--       their deadlines: how many, then each in ms,
--       calls: kind, how many words, then each word (kinds: command, numbers, script, skip)
-- reply {} when a deadline has passed and has not, and nothing was done; else {start in µs, end in µs, replies, keys}
--
-- Above this text stand `scripts`, the lock scripts as functions of KEYS and ARGV, and the text of calls.lua.
local at = 2

local function take()
    at = at + 1
    return ARGV[at - 1]
end

local function take_list()
    local list = {}
    for i = 1, tonumber(take()) do
        list[i] = take()
    end
    return list
end

-- A reply as text that keeps what a script sees of it: types, and where each text ends.
local function show(value)
    local kind = type(value)
    if kind == 'string' then
        return 's' .. #value .. ':' .. value
    elseif kind == 'number' then
        local text = string.format('%.17g', value)
        return 'n' .. #text .. ':' .. text
    elseif kind ~= 'table' then
        return value == false and 'f' or 'u'
    elseif value['ok'] then
        return 'o' .. #value['ok'] .. ':' .. value['ok']
    elseif value['err'] then
        return 'e' .. #value['err'] .. ':' .. value['err']
    end
    local parts = {}
    for i, part in ipairs(value) do
        parts[i] = show(part)
    end
    return 'l' .. #parts .. ':' .. table.concat(parts)
end

local keys, deadlines = take_list(), take_list()
for i, deadline in ipairs(deadlines) do
    -- Redis 7.0 judges keys by the time at which the script began, a little before `now`.
    if now > tonumber(deadline) and redis.call('EXISTS', keys[i]) == 1 then
        return {}
    end
end

local replies = {}
while at <= #ARGV do
    local kind, words = take(), take_list()
    for i, word in ipairs(words) do
        words[i] = timed(word)
    end
    local value = run[kind](words)
    -- Every other reply takes the way to the caller as it is.
    local is_plain = #replies % 2 == 0 or type(value) == 'table' and value['err']
    replies[#replies + 1] = is_plain and show(value) or {value}
end

local readers = {
    string = {'GET'},
    hash = {'HGETALL'},
    list = {'LRANGE', 0, -1},
    zset = {'ZRANGE', 0, -1, 'WITHSCORES'},
}
local seen = {}
for i, key in ipairs(keys) do
    local kind = redis.call('TYPE', key)['ok']
    local reader, value = readers[kind], false
    if reader then
        value = redis.call(reader[1], key, unpack(reader, 2))
    end
    seen[i] = {kind, is_server and redis.call('PEXPIRETIME', key) or 0, show(value)}
end
return {string.format('%.0f', start), string.format('%.0f', micros()), replies, seen}
