-- Gives back the last holds of several tenures of one client, each on a lock of its own: a row each.
-- KEYS  per row: lock, channel, holder details (in every row or in none)
-- ARGV  per row: field of the tenure
-- reply per row: how many clients got the message (0 or more); -1: no field is there; -2: another client is there; a text:
--       the server's error about this row
--
-- Removes all fields, with which the locks go; then sends the messages. Begins with a write that a full server allows. An
-- error in one row concerns no other row. If every row failed and nothing was removed, the first error is the reply itself:
-- the caller's connection must notice a server that takes no writes. Details are for people: what cannot be done about
-- them is left out.
local keys, args = KEYS, ARGV
local rows = #args
local width = #keys / rows

local freed, is_any_freed = {}, false
for row = 1, rows do
    local key, field = (row - 1) * width + 1, args[row]
    freed[row] = redis.pcall('HDEL', keys[key], field)
    if freed[row] == 1 then
        is_any_freed = true
        if width == 3 then
            redis.pcall('HDEL', keys[key + 2], field)
        end
    end
end
local reply, failed, first = {}, 0, nil
for row = 1, rows do
    local key, answer = (row - 1) * width + 1, freed[row]
    if answer == 1 then
        answer = redis.pcall('PUBLISH', keys[key + 1], '0')
    elseif answer == 0 then
        local other = redis.pcall('EXISTS', keys[key])
        answer = type(other) == 'table' and other or -1 - other
    end
    if type(answer) == 'table' then
        first, failed, answer = first or answer, failed + 1, answer.err
    end
    reply[row] = answer
end
return failed == rows and not is_any_freed and first or reply
