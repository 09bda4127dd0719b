<?php

/**
 * Measures one call of an MCP tool, warm and fresh, through the extension and with plain ext-curl.
 *
 *     php -d extension=libpillion.so benches/warm_call.php URL TOOL ARGUMENTS ROUNDS
 *
 * The four ways alternate within one process, so that other load on the machine affects all of them. The script
 * compares the decoded results.
 */

declare(strict_types=1);

use Pillion\MCPSSEClient;

/** A client without the extension: the minimum for a single known server. */
final class CurlClient
{
    /** The revision that the extension offers by default: the server's work depends on the revision. */
    private const VERSION = '2025-11-25';
    private const HEADERS = [
        'Content-Type: application/json',
        'Accept: application/json, text/event-stream',
    ];

    private readonly CurlHandle $curl;
    private bool $ready = false;
    private int $id = 0;

    public function __construct(private readonly string $url)
    {
        $this->curl = curl_init();
        $this->configure([]);
    }

    /** @param list<string> $headers */
    private function configure(array $headers): void
    {
        curl_setopt_array($this->curl, [
            CURLOPT_URL => $this->url,
            CURLOPT_HTTPHEADER => [...self::HEADERS, ...$headers],
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT => 30,
        ]);
    }

    /** @param array<string, mixed> $arguments */
    public function callTool(string $name, array $arguments): array
    {
        if (!$this->ready) {
            $this->initialize();
        }

        return $this->request('tools/call', ['name' => $name, 'arguments' => $arguments]);
    }

    private function initialize(): void
    {
        $session = [];
        curl_setopt($this->curl, CURLOPT_HEADERFUNCTION, function ($curl, string $line) use (&$session): int {
            if (stripos($line, 'mcp-session-id:') === 0) {
                $session = [trim($line)];
            }

            return strlen($line);
        });
        $this->request('initialize', [
            'protocolVersion' => self::VERSION,
            'capabilities' => new stdClass(),
            'clientInfo' => ['name' => 'curl', 'version' => '1'],
        ]);
        // Removes the callback, which PHP 8.2 cannot remove alone. The connection stays open.
        curl_reset($this->curl);
        $this->configure([...$session, 'Mcp-Protocol-Version: ' . self::VERSION]);
        $this->post(['jsonrpc' => '2.0', 'method' => 'notifications/initialized']);
        $this->ready = true;
    }

    /** @param array<string, mixed> $params */
    private function request(string $method, array $params): array
    {
        $body = $this->post([
            'jsonrpc' => '2.0', 'id' => ++$this->id, 'method' => $method, 'params' => $params,
        ]);
        $json = str_starts_with($body, '{') ? $body : $this->lastEvent($body);
        $message = json_decode($json, true, flags: JSON_THROW_ON_ERROR);

        return $message['result'] ?? throw new RuntimeException("$method: $body");
    }

    private function lastEvent(string $stream): string
    {
        $data = '';
        foreach (explode("\n", $stream) as $line) {
            if (str_starts_with($line, 'data: ')) {
                $data = substr($line, 6);
            }
        }

        return $data;
    }

    /** @param array<string, mixed> $message */
    private function post(array $message): string
    {
        curl_setopt($this->curl, CURLOPT_POSTFIELDS, json_encode($message, JSON_THROW_ON_ERROR));
        $body = curl_exec($this->curl);
        $status = curl_getinfo($this->curl, CURLINFO_RESPONSE_CODE);
        if ($body === false || $status >= 300) {
            throw new RuntimeException("curl: HTTP $status " . curl_error($this->curl) . " $body");
        }

        return $body;
    }
}

/** @param list<float> $values */
function quantile(array $values, float $part): float
{
    sort($values);

    return $values[(int) floor($part * (count($values) - 1))];
}

if ($argc !== 5) {
    fwrite(STDERR, "usage: warm_call.php URL TOOL ARGUMENTS ROUNDS\n");
    exit(2);
}
[, $url, $tool, $arguments, $rounds] = $argv;
$arguments = json_decode($arguments, true, flags: JSON_THROW_ON_ERROR);
$rounds = max(10, (int) $rounds);

$warmExtension = new MCPSSEClient($url);
$warmCurl = new CurlClient($url);
$fresh = 0;
$ways = [
    'extension, warm' => fn () => $warmExtension->callTool($tool, $arguments),
    'ext-curl, warm' => fn () => $warmCurl->callTool($tool, $arguments),
    // A unique header gives the client its own connection and session; without it, the process would reuse the
    // warm ones.
    'extension, fresh' => function () use ($url, $tool, $arguments, &$fresh) {
        $options = ['headers' => ['X-Fresh' => (string) ++$fresh]];

        return (new MCPSSEClient($url, options: $options))->callTool($tool, $arguments);
    },
    'ext-curl, fresh' => fn () => (new CurlClient($url))->callTool($tool, $arguments),
];
$freshEvery = 10;

$expected = $warmCurl->callTool($tool, $arguments);
// Warms up the server's compiler until response times are stable.
for ($call = 0; $call < 200; $call++) {
    foreach (['extension, warm', 'ext-curl, warm'] as $way) {
        if ($ways[$way]() != $expected) {
            throw new RuntimeException("$way: another result");
        }
    }
}

$times = array_fill_keys(array_keys($ways), []);
$order = array_keys($ways);
for ($round = 0; $round < $rounds; $round++) {
    // The second way benefits from warm server caches, so the order alternates each round.
    $order = array_reverse($order);
    foreach ($order as $way) {
        if (str_ends_with($way, 'fresh') && $round % $freshEvery >= 2) {
            continue;
        }
        $run = $ways[$way];
        $start = hrtime(true);
        $result = $run();
        $times[$way][] = (hrtime(true) - $start) / 1000;
        if ($result != $expected) {
            throw new RuntimeException("$way: another result");
        }
    }
}

printf("  %-18s %6s %10s %10s %10s\n", '', 'calls', 'p10 us', 'median us', 'p90 us');
foreach ($times as $way => $measured) {
    printf(
        "  %-18s %6d %10.0f %10.0f %10.0f\n",
        $way,
        count($measured),
        quantile($measured, 0.1),
        quantile($measured, 0.5),
        quantile($measured, 0.9),
    );
}
foreach (['warm', 'fresh'] as $kind) {
    printf(
        "  ratio of the medians, extension / ext-curl, %s: %.2f\n",
        $kind,
        quantile($times["extension, $kind"], 0.5) / quantile($times["ext-curl, $kind"], 0.5),
    );
}
