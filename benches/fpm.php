<?php

declare(strict_types=1);

/*
 * Requests to a real php-fpm worker, each with one tool call. The ways of calling the tool alternate.
 * benches/run starts this script and sets PILLION_EXTENSION and PILLION.
 *
 *     php benches/fpm.php ROUNDS
 */

use Pillion\Tests\Support\FastCgi;
use Pillion\Tests\Support\Fpm;
use Pillion\Tests\Support\Peer;

require __DIR__ . '/../php-ext/tests/php/Support/autoload.php';

final class Pages
{
    private const PAGE = __DIR__ . '/fpm/page.php';

    /** The number of consecutive requests of the same way, so that the worker is warm like a busy worker. */
    private const REQUESTS_PER_TURN = 10;

    /** The number of requests until the server's just-in-time compiler no longer uses the second processor. */
    private const WARM_UP_REQUESTS = 1500;

    private FastCgi $worker;

    public function __construct(private readonly Fpm $fpm)
    {
        // One connection per request, like a web server.
        $this->worker = new FastCgi($fpm->address);
    }

    /** Returns the duration of one request in microseconds. @param array<string, string> $page */
    public function time(array $page): float
    {
        $body = '';
        $start = hrtime(true);
        $this->worker->run(self::PAGE, 0, 1, fn () => $page, function (int $number, string $answer) use (&$body): void {
            $body = $answer;
        });
        $time = (hrtime(true) - $start) / 1e3;
        if (!preg_match('/^(nothing|Echo: hello|Long running .*|(Long){8})$/', $body)) {
            throw new RuntimeException("{$page['way']}: $body");
        }
        return $time;
    }

    /** Sends requests until the server has compiled its code. @param array<string, string> $page */
    public function warmUp(array $page): void
    {
        for ($request = 0; $request < self::WARM_UP_REQUESTS; $request++) {
            $this->time($page);
        }
    }

    /**
     * @param array<string, array<string, string>> $pages
     *
     * @return array<string, float> medians in microseconds
     */
    public function medians(array $pages, int $rounds): array
    {
        $times = [];
        for ($round = 0; $round < $rounds; $round++) {
            foreach ($pages as $name => $page) {
                $times[$name][] = $this->medianOfTurn($page);
            }
        }
        return array_map(self::median(...), $times);
    }

    /**
     * Returns the median ratio of two ways. Each ratio compares two adjacent turns, so that other load on the
     * machine affects both.
     *
     * @param array<string, string> $one
     * @param array<string, string> $other
     */
    public function ratio(array $one, array $other, int $rounds): float
    {
        $ratios = [];
        for ($round = 0; $round < $rounds; $round++) {
            // Alternates which way is first.
            $turns = $round % 2 === 0 ? [$one, $other] : [$other, $one];
            [$first, $second] = array_map($this->medianOfTurn(...), $turns);
            $ratios[] = $round % 2 === 0 ? $first / $second : $second / $first;
        }
        return self::median($ratios);
    }

    /** Returns the median of consecutive requests of the same way. @param array<string, string> $page */
    private function medianOfTurn(array $page): float
    {
        // Excludes the server's work after the previous response from the measurement.
        $this->time(['way' => 'nothing']);
        $times = [];
        for ($request = 0; $request < self::REQUESTS_PER_TURN; $request++) {
            $times[] = $this->time($page);
        }
        return self::median($times);
    }

    /** @param non-empty-list<float> $values */
    private static function median(array $values): float
    {
        sort($values);
        return $values[intdiv(count($values), 2)];
    }
}

/** @return array{resource, string} the process and the first line of its output */
function start(array $command): array
{
    $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['file', '/dev/null', 'w']], $pipes);
    return [$process, trim((string) fgets($pipes[1]))];
}

$rounds = max(20, (int) ($argv[1] ?? 200));
$work = sys_get_temp_dir() . '/pillion-bench-' . getmypid();
mkdir($work);
$url = Peer::url('everything') ?? exit("server-everything is not installed: scripts/setup test\n");
$command = explode("\n", trim((string) shell_exec(escapeshellarg(__DIR__ . '/../tests/peers/start') . ' --command everything-stdio')));

// Both ways use a relay, because the relay itself takes some time.
$relays = $relayed = [];
foreach ([0, 50] as $delay) {
    [$relays[], $port] = start(['python3', __DIR__ . '/delay.py', (string) parse_url($url, PHP_URL_PORT), (string) $delay]);
    $relayed[$delay] = str_replace((string) parse_url($url, PHP_URL_PORT), $port, $url);
}

$socket = "$work/pillion.sock";
$toJson = fn (array $words) => json_encode($words, JSON_UNESCAPED_SLASHES);
file_put_contents("$work/pillion.toml", <<<TOML
    [store]
    location = "$work/pillion.db"
    [executor]
    max_concurrent = 16
    max_concurrent_total = 48
    [[mcp_servers]]
    label = "http"
    url = "$url"
    tool_prefix = "http_"
    [[mcp_servers]]
    label = "stdio"
    command = "$command[0]"
    args = {$toJson(array_slice($command, 1))}
    tool_prefix = "stdio_"
    TOML);
$sidecar = proc_open([getenv('PILLION'), 'serve', '--config', "$work/pillion.toml", '--socket', $socket], [['pipe', 'r'], ['file', '/dev/null', 'w'], ['file', "$work/sidecar.log", 'w']], $pipes);
$fpm = Fpm::withWorkers(1);
$pages = new Pages($fpm);
try {
    // The socket exists shortly before the sidecar listens on it.
    for ($tries = 0; !@stream_socket_client("unix://$socket") && $tries < 500; $tries++) {
        usleep(20_000);
    }
    $page = fn (string $way, array $more = []) => ['way' => $way, 'url' => $url] + $more;
    foreach (['2025-11-25', '2025-06-18'] as $revision) {
        $pages->warmUp($page('curl', ['revision' => $revision]));
    }
    $ways = [
        'extension' => $page('extension'),
        'curl' => $page('curl'),
        'extension, 2025-06-18' => $page('extension', ['revision' => '2025-06-18']),
        'curl, 2025-06-18' => $page('curl', ['revision' => '2025-06-18']),
        'sidecar' => $page('sidecar', ['socket' => $socket, 'tool' => 'http_echo']),
        'sidecar, stdio' => $page('sidecar', ['socket' => $socket, 'tool' => 'stdio_echo']),
    ];
    $local = $pages->medians(['nothing' => $page('nothing')] + $ways, intdiv($rounds, 10));
    $ratio = fn (string $one, string $other) => $pages->ratio($ways[$one], $ways[$other], intdiv($rounds, 2));
    $delayed = $pages->medians([
        'extension, 0 ms away' => ['url' => $relayed[0]] + $page('extension'),
        'extension, 50 ms away' => ['url' => $relayed[50]] + $page('extension'),
        'curl, 0 ms away' => ['url' => $relayed[0]] + $page('curl'),
        'curl, 50 ms away' => ['url' => $relayed[50]] + $page('curl'),
    ], 3);
    $slow = $pages->medians([
        'spawned, stdio' => $page('spawn', ['command' => json_encode($command)]),
        'one call of 100 ms' => $page('one'),
        'eight calls of 100 ms' => $page('eight'),
    ], 2);
    foreach ($all = $local + $delayed + $slow as $name => $median) {
        printf("%-24s %10.0f us\n", $name, $median);
    }
    echo "\n";
    $ratios = [
        'extension / curl with a cached session' => [$ratio('extension', 'curl'), 0.9],
        'the same at revision 2025-06-18' => [$ratio('extension, 2025-06-18', 'curl, 2025-06-18'), 0.9],
        'round trips of 50 ms, extension' => [($all['extension, 50 ms away'] - $all['extension, 0 ms away']) / 5e4, 1.1],
        'round trips of 50 ms, curl' => [($all['curl, 50 ms away'] - $all['curl, 0 ms away']) / 5e4, null],
        'stdio through the sidecar / spawned' => [$all['sidecar, stdio'] / $all['spawned, stdio'], 0.01],
        'eight calls / one call' => [$all['eight calls of 100 ms'] / $all['one call of 100 ms'], 1.2],
        'through the sidecar / directly' => [$ratio('sidecar', 'extension'), 1.5],
    ];
    foreach ($ratios as $name => [$ratio, $goal]) {
        printf("%-40s %7.3f%s\n", $name, $ratio, $goal === null ? '' : "   (goal: at most $goal)");
    }
} finally {
    $fpm->stop();
    foreach ([$sidecar, ...$relays] as $process) {
        proc_terminate($process);
        proc_close($process);
    }
    array_map('unlink', (array) glob("$work/*"));
    rmdir($work);
    array_map('unlink', (array) glob(sys_get_temp_dir() . '/pillion-bench-' . '*'));
}
