<?php

declare(strict_types=1);

/*
 * A misbehaving HTTP server on a Unix socket: php peer.php SOCKET BEHAVIOR. Prints a line for
 * each request that it has read, and ends when its standard input is closed.
 */

[, $path, $behavior] = $argv;
$server = stream_socket_server("unix://$path");
echo "ready\n";

/** @return ?string the body of the next request; null when there is none */
function request_body($connection): ?string
{
    $head = '';
    while (!str_ends_with($head, "\r\n\r\n")) {
        $byte = fread($connection, 1);
        if ($byte === '' || $byte === false) {
            return null;
        }
        $head .= $byte;
    }
    $length = preg_match('/^content-length: (\d+)/im', $head, $found) === 1 ? (int) $found[1] : 0;
    $body = '';
    while (strlen($body) < $length) {
        if ($GLOBALS['behavior'] === 'slow reader') {
            usleep(20_000);
        }
        $body .= fread($connection, min(4096, $length - strlen($body)));
    }
    echo 'request ', strtok($head, "\r"), "\n";
    return $body;
}

function whole(string $body, string $head = "HTTP/1.1 200 OK\r\n"): string
{
    return $head . 'content-length: ' . strlen($body) . "\r\n\r\n$body";
}

$health = '{"status":"ok"}';
$chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
$count = 0;
while (true) {
    $readable = [$server, STDIN];
    $none = null;
    if (stream_select($readable, $none, $none, null) === false || in_array(STDIN, $readable, true)) {
        exit(0);
    }
    $connection = stream_socket_accept($server);
    while (($body = request_body($connection)) !== null) {
        $count++;
        $write = static fn (string $bytes): int|false => @fwrite($connection, $bytes);
        match ($behavior) {
            'whole' => $write(whole($health)),
            'early' => $write("HTTP/1.1 100 Continue\r\n\r\n" . whole($health)),
            'old' => $write("HTTP/1.0 200 OK\r\n\r\n$health"),
            'chunks' => $write("{$chunked}5\r\n{\"sta\r\n1;x=y\r\nt\r\n9\r\nus\":\"ok\"}\r\n0\r\nx-trailer: 1\r\n\r\n"),
            'pieces' => array_map(static fn (string $byte) => [$write($byte), usleep(500)], str_split(whole($health))),
            'closes', 'second breaks off' => $behavior === 'closes' || $count === 2 ? null : $write(whole($health)),
            'half' => $write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"sta"),
            'half head' => $write("HTTP/1.1 200 OK\r\ncontent-le"),
            'half chunk' => $write("{$chunked}10\r\n{\"sta"),
            'no http' => $write("SSH-2.0-OpenSSH_9.2\r\n\r\n"),
            'odd length' => $write("HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n$health"),
            'odd chunk' => $write("{$chunked}zz\r\n$health\r\n"),
            'large' => $write("HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n"),
            'large chunk' => $write("{$chunked}FFFFFFFFFF\r\n"),
            'drip' => (static function () use ($write): void {
                $write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
                while ($write('x') !== false) {
                    usleep(20_000);
                }
            })(),
            'endless' => (static function () use ($write): void {
                $write("HTTP/1.1 200 OK\r\n\r\n");
                while ($write(str_repeat('x', 65536)) !== false) {
                    continue;
                }
            })(),
            'slow reader' => null,
            'silent' => sleep(30),
            'asks' => $write(whole('{"results":[{"success":true,"tool":"t","result":{"success":false,"data":null,"error":"The call to tool \'t\' needs approval","error_code":"approval_required","metadata":{"approval_id":"a1","arguments":{"map":{},"list":[],"f":1.5}}}},{"success":true,"tool":"t","result":{"success":true,"data":{"map":{}},"error":null,"metadata":{}}}]}')),
            'second batch breaks off', 'second batch is no list' => $behavior === 'second batch breaks off' && $count === 2 ? null : $write(whole(json_encode([
                'results' => $behavior === 'second batch is no list' && $count === 2 ? 5 : array_map(static fn () => ['success' => true, 'tool' => 't', 'result' => ['success' => true, 'data' => 1]], json_decode($body)->calls),
            ]))),
            'half a chat' => $write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: chat\ndata: {\"id\":\"c1\",\"model\":\"m\"}\n\n: a comment\n\nevent: delta\ndata: {\"text\":\"Hi\"}\n\nevent: del"),
            'no json' => $write(whole('<html>')),
            'a list' => $write(whole('[]')),
            'wrong types' => $write(whole('{"tools": "none", "schemas": [5], "results": {}, "success": "yes"}')),
            'deep' => $write(whole(str_repeat('[', 10_000))),
            'server error' => $write(whole('oops', "HTTP/1.1 502 Bad Gateway\r\n")),
            'too large' => $write(whole('{"success":false,"error":"Too large","error_code":"invalid_input"}', "HTTP/1.1 413 Too Large\r\n")),
        };
        $closes = ['closes', 'half', 'half head', 'half chunk', 'old', 'no http', 'odd length', 'odd chunk', 'large', 'large chunk', 'half a chat'];
        if (in_array($behavior, $closes, true) || (in_array($behavior, ['second breaks off', 'second batch breaks off'], true) && $count === 2)) {
            break;
        }
    }
    fclose($connection);
}
