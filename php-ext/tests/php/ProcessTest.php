<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SessionServer;
use PHPUnit\Framework\TestCase;

/**
 * The lifecycle of a command-line process: sessions, forks, signals, end.
 *
 * @group extension
 */
final class ProcessTest extends TestCase
{
    private static SessionServer $server;

    public static function setUpBeforeClass(): void
    {
        self::$server = new SessionServer();
    }

    public static function tearDownAfterClass(): void
    {
        self::$server->stop();
    }

    /**
     * Runs code in which `$url` is the server, and `$who` returns the server's view of a client.
     *
     * @param list<string> $options
     *
     * @return array{output: string, errors: string, exit: int}
     */
    private function runPhp(string $code, array $options = []): array
    {
        $start = sprintf(
            '$url = %s; $who = fn (?string $key = null) => (new Pillion\MCPSSEClient($url, 20, $key))->callTool("who");',
            var_export(self::$server->url, true),
        );
        return Process::php($start . $code, $options);
    }

    /** @return list<string> the sessions that the code opened and did not end */
    private function leftBy(string $code, string $output, int $exit = 0): array
    {
        $before = self::$server->seen()['opened'];
        $ran = $this->runPhp($code);
        self::assertSame([$output, '', $exit], [$ran['output'], $ran['errors'], $ran['exit']]);
        // The server may process the last messages of the process a moment later.
        $seen = self::$server->seenWhen(fn ($seen) => array_diff($seen['opened'], $before, $seen['ended']) === []);
        $opened = array_diff($seen['opened'], $before);
        self::assertNotEmpty($opened);
        self::assertSame(count($seen['ended']), count(array_unique($seen['ended'])), 'no session is ended twice');
        return array_values(array_diff($opened, $seen['ended']));
    }

    public function testSessionsEndHoweverAScriptEnds(): void
    {
        self::assertSame([], $this->leftBy('$who(); $who("a"); echo "end";', 'end'));
        self::assertSame([], $this->leftBy('$who(); exit(3);', '', 3));
        self::assertSame([], $this->leftBy('$who(); ini_set("display_errors", "0"); throw new Exception;', '', 255));
        self::assertSame([], $this->leftBy('$who(); ini_set("display_errors", "0"); trigger_error("x", E_USER_ERROR);', '', 255));
        self::assertSame([], $this->leftBy('$client = new Pillion\MCPSSEClient($url); $client->listTools(); $r = new Pillion\ToolRegistry; $r->registerMcpServer($client); echo count($r);', '1'));
    }

    public function testACallContinuesWhilePhpDoesSomethingElse(): void
    {
        $code = <<<'PHP'
            $opened = fn () => count(json_decode(file_get_contents(str_replace('/mcp', '/seen', $url)), true)['opened']);
            $before = $opened();
            foreach ([1, 2] as $round) {
                $stream = (new Pillion\McpClient($url, ['headers' => ['X-Round' => "$round"]]))->streamTool('who');
                for ($tries = 0; $opened() < $before + $round && $tries < 3000; $tries++) {
                    usleep(20_000);
                }
                echo $opened() - $before;
                // The signal thread is replaced, and takes over again.
                echo $stream->getResult()->success ? ' ends ' : ' fails ';
            }
            PHP;
        $ran = $this->runPhp($code);
        self::assertSame(['1 ends 2 ends ', '', 0], [$ran['output'], $ran['errors'], $ran['exit']]);
    }

    public function testAHangingServerDelaysTheEndOfAScriptBriefly(): void
    {
        $server = new SessionServer();
        $note = tempnam(sys_get_temp_dir(), 'pillion');
        $code = sprintf(
            '(new Pillion\MCPSSEClient(%1$s))->callTool("who"); posix_kill(%2$d, SIGSTOP);'
            // Its other threads run until one of them has seen the signal.
            . 'while (!str_contains(file_get_contents("/proc/%2$d/stat"), ") T ")) { usleep(1000); }'
            . 'file_put_contents(%3$s, (string) microtime(true));',
            var_export($server->url, true),
            $server->pid(),
            var_export($note, true),
        );
        $ran = Process::php($code);
        $took = microtime(true) - (float) file_get_contents($note);
        $server->stop();
        unlink($note);
        self::assertSame(['', '', 0], [$ran['output'], $ran['errors'], $ran['exit']]);
        self::assertGreaterThan(0.4, $took);
        self::assertLessThan(10, $took);
    }

    public function testForkedChildrenEndOnlyTheirOwnSessions(): void
    {
        $fork = <<<'PHP'
            $fork = function (callable $child): void {
                $pid = pcntl_fork();
                if ($pid === 0) { $child(); exit; }
                pcntl_waitpid($pid, $status);
                if ($status !== 0) { echo "the child ended with $status "; }
            };
            PHP;
        // Before the first use: each process starts its own threads.
        self::assertSame([], $this->leftBy($fork . '$fork(fn () => $who()); $who(); echo "end";', 'end'));
        // With warm sessions: the child uses none of them, and opens its own.
        $code = $fork . <<<'PHP'
            $mine = $who()['session'];
            $fork(function () {});
            $fork(fn () => posix_kill(getmypid(), SIGKILL) );
            $fork(fn () => print($who()['session'] === $mine ? 'shared ' : 'own '));
            $fork(fn () => $fork(fn () => print($who()['session'] === $mine ? 'shared ' : 'own ')));
            echo $who()['session'] === $mine ? 'kept' : 'lost';
            PHP;
        self::assertSame([], $this->leftBy($code, 'the child ended with 9 own own kept'));
        // A registry with tools of a server, released by the child.
        $code = $fork . <<<'PHP'
            $registry = new Pillion\ToolRegistry;
            $registry->registerMcpServer(new Pillion\MCPSSEClient($url));
            $executor = new Pillion\ToolExecutor($registry);
            $run = fn () => $executor->execute(new Pillion\ToolCall('1', 'who'))->result['session'];
            $mine = $run();
            $fork(function () use (&$registry, &$executor, &$run) { $registry = $executor = $run = null; });
            $fork(fn () => print($run() === $mine ? 'shared ' : 'own '));
            echo $run() === $mine ? 'kept' : 'lost';
            PHP;
        self::assertSame([], $this->leftBy($code, 'own kept'));
    }

    public function testAForkInsideAToolLeavesTheCallToTheParent(): void
    {
        $code = <<<'PHP'
            $registry = Pillion\ToolRegistry::withBuiltins();
            $registry->registerMcpServer(new Pillion\MCPSSEClient($url));
            $registry->register(new Pillion\ToolDefinition('forks', 'Forks'), function () use ($who) {
                $pid = pcntl_fork();
                if ($pid > 0) { pcntl_waitpid($pid, $status); return pcntl_wexitstatus($status); }
                $who();
                return 'child';
            });
            $executor = new Pillion\ToolExecutor($registry);
            try {
                $results = $executor->executeParallel([
                    new Pillion\ToolCall('1', 'who', ['seconds' => 0.3]),
                    new Pillion\ToolCall('2', 'forks'),
                    new Pillion\ToolCall('3', 'calculator', ['expression' => '6*7']),
                ]);
                echo $results[1]->result, ' ', $results[2]->result, ' ', isset($results[0]->result['session']) ? 'who' : $results[0]->error;
            } catch (Error $e) {
                exit(str_contains($e->getMessage(), 'only the parent') ? 7 : 8);
            }
            PHP;
        self::assertSame([], $this->leftBy($code, '7 42 who'));
    }

    public function testForkedChildrenDoNotEndTheProgramsOfTheirParent(): void
    {
        $code = sprintf('$command = ["python3", %s];', var_export(__DIR__ . '/../servers/stdio.py', true)) . <<<'PHP'
            $pid = fn () => (new Pillion\McpClient(["command" => $command], ["timeout" => 20]))->request("tools/call", ["name" => "pid"])["structuredContent"]["pid"];
            $fork = function (callable $child): void {
                $process = pcntl_fork();
                if ($process === 0) { $child(); exit; }
                pcntl_waitpid($process, $status);
            };
            $mine = $pid();
            $fork(function () {});
            $fork(fn () => posix_kill(getmypid(), SIGKILL));
            $fork(fn () => print($pid() . ' '));
            // Longer than the time that a server has to exit after its input ended.
            sleep(3);
            echo $mine, ' ', $pid();
            PHP;
        $ran = Process::php($code);
        self::assertSame(['', 0], [$ran['errors'], $ran['exit']]);
        self::assertMatchesRegularExpression('/^\d+ \d+ \d+$/', $ran['output']);
        [$childs, $before, $after] = array_map('intval', explode(' ', $ran['output']));
        self::assertSame($before, $after, 'the parent still uses the same program');
        self::assertNotSame($before, $childs);
        self::assertTrue(Process::waitFor(fn () => !posix_kill($childs, 0) && !posix_kill($before, 0)), 'no program outlives its process');
    }

    public function testInternalSignalsDoNotReachPhp(): void
    {
        $code = sprintf('$command = ["python3", %s, "deaf"];', var_export(__DIR__ . '/../servers/stdio.py', true)) . <<<'PHP'
            pcntl_async_signals(true);
            pcntl_signal(SIGPIPE, function () { echo 'SIGPIPE '; });
            $client = new Pillion\McpClient(['command' => $command], ['timeout' => 1]);
            for ($call = 0; $call < 4; $call++) {
                // The program reads nothing after its first response: later messages are lost.
                try { $client->request('tools/call', ['name' => 'pid']); } catch (Pillion\Exception\PillionException) { }
            }
            foreach (glob('/proc/self/task/*/status') as $status) {
                preg_match('/^Name:\s*(\S+).*^SigBlk:\s*(\S+)/ms', file_get_contents($status), $thread);
                $taken = ~hexdec(substr($thread[2], 8)) & (1 << SIGTERM - 1 | 1 << SIGALRM - 1 | 1 << SIGPROF - 1 | 1 << SIGCHLD - 1);
                if ($status !== '/proc/self/task/' . getmypid() . '/status' && $taken !== 0) {
                    echo "$thread[1] takes signals ";
                }
            }
            pcntl_sigprocmask(SIG_UNBLOCK, [SIGUSR1], $mask);
            echo count($mask), ' end';
            PHP;
        $ran = Process::php($code);
        self::assertSame(['0 end', '', 0], [$ran['output'], $ran['errors'], $ran['exit']]);
    }

    public function testAFiberWithASmallStackCanCall(): void
    {
        $code = <<<'PHP'
            ini_set('fiber.stack_size', '96K');
            $fiber = new Fiber(function () use ($who) { echo strlen($who()['session'] ?? '') > 0 ? 'called' : 'nothing'; });
            $fiber->start();
            PHP;
        self::assertSame([], $this->leftBy($code, 'called'));
    }

    public function testSessionsReleasedAtTheEndAreEnded(): void
    {
        $code = sprintf('$command = ["python3", %s];', var_export(__DIR__ . '/../servers/stdio.py', true)) . <<<'PHP'
            ini_set('pillion.log_level', 'off');
            $who();
            (new Pillion\McpClient(["command" => $command]))->request("tools/call", ["name" => "pid"]);
            echo 'end';
            PHP;
        $before = self::$server->seen()['opened'];
        $ran = $this->runPhp($code, ['-d', 'pillion.max_sessions=1']);
        self::assertSame(['end', '', 0], [$ran['output'], $ran['errors'], $ran['exit']]);
        $seen = self::$server->seenWhen(fn ($seen) => array_diff($seen['opened'], $before, $seen['ended']) === []);
        self::assertSame([], array_diff($seen['opened'], $before, $seen['ended']));
    }

    public function testUsersNeverShareASession(): void
    {
        $code = <<<'PHP'
            $sessions = [];
            foreach (['alice', 'bob', null, 'bob', 'alice', null] as $user) {
                $seen = $who($user);
                if ($seen['authorization'] !== ($user === null ? null : "Bearer $user")) { exit(1); }
                $sessions[$user ?? ''][] = $seen['session'];
            }
            $tenant = fn (string $id) => (new Pillion\MCPSSEClient($url, 20, 'alice', ['headers' => ['x-tenant' => $id]]))->callTool('who')['session'];
            $sessions['one'] = [$tenant('one'), $tenant('one')];
            $sessions['two'] = [$tenant('two'), $tenant('two')];
            echo json_encode(array_map(fn ($seen) => count(array_unique($seen)), array_values($sessions))), ' ', count(array_unique(array_merge(...array_values($sessions))));
            PHP;
        self::assertSame([], $this->leftBy($code, '[1,1,1,1,1] 5'));
    }

    public function testTheNumberOfSessionsIsLimited(): void
    {
        $before = count(self::$server->seen()['ended']);
        $note = tempnam(sys_get_temp_dir(), 'pillion');
        $code = 'foreach (range(1, 20) as $user) $who("user-$user"); file_put_contents(' . var_export($note, true) . ', "done"); fgets(STDIN);';
        $script = proc_open([
            PHP_BINARY, '-d', 'extension=' . getenv('PILLION_EXTENSION'), '-d', 'pillion.max_sessions=3', '-r',
            '$who = fn ($key) => (new Pillion\MCPSSEClient("' . self::$server->url . '", 20, $key))->callTool("who");' . $code,
        ], [['pipe', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes);
        self::assertNotFalse($script);
        // A session has a second connection if the first was not free in time.
        $seen = self::$server->seenWhen(fn ($seen) => count($seen['ended']) === $before + 17
            && $seen['connections'] <= 6 && file_get_contents($note) === 'done');
        fclose($pipes[0]);
        self::assertSame(0, proc_close($script));
        unlink($note);
        self::assertSame([$before + 17, true], [count($seen['ended']), $seen['connections'] <= 6]);
        self::assertCount($before + 20, self::$server->seenWhen(fn ($seen) => count($seen['ended']) === $before + 20)['ended']);
    }

    public function testIdleSessionsEndAndTheirConnectionsAreClosed(): void
    {
        $before = self::$server->seen();
        $code = <<<'PHP'
            $connections = fn () => json_decode(file_get_contents(str_replace('/mcp', '/seen', $url)))->connections;
            $first = $who()['session'];
            $busy = (new Pillion\MCPSSEClient($url, 20, 'busy'))->callTool('who', ['seconds' => 1.5])['session'];
            for ($tries = 0; $connections() > 0 && $tries < 3000; $tries++) usleep(20000);
            echo $connections(), ' ', $who()['session'] === $first ? 'kept' : 'new';
            echo ' ', (new Pillion\MCPSSEClient($url, 20, 'busy'))->callTool('who')['session'] === $busy ? 'kept' : 'new';
            PHP;
        $ran = $this->runPhp($code, ['-d', 'pillion.session_idle_ms=300']);
        self::assertSame(['0 new new', ''], [$ran['output'], $ran['errors']]);
        $seen = self::$server->seenWhen(fn ($seen) => count($seen['ended']) - count($before['ended']) === 4);
        self::assertSame([4, 4], [count($seen['opened']) - count($before['opened']), count($seen['ended']) - count($before['ended'])]);
    }

    /** @return array<string, array{string, int}> */
    public static function signals(): array
    {
        return [
            'Ctrl-C without a handler' => ['', SIGINT],
            'SIGTERM without a handler' => ['', SIGTERM],
            'Ctrl-C with a handler that throws' => ['pcntl_async_signals(true); pcntl_signal(SIGINT, fn () => throw new Exception("enough"));', SIGINT],
            'SIGTERM with a handler that leaves' => ['pcntl_async_signals(true); pcntl_signal(SIGTERM, fn () => exit("enough"));', SIGTERM],
        ];
    }

    /** @dataProvider signals */
    public function testASignalEndsAWait(string $handler, int $signal): void
    {
        $url = var_export(FakeServer::url(), true);
        $code = "$handler (new Pillion\\MCPSSEClient($url))->callTool('echo');"
            // Inside the block, because the signal may arrive before the wait.
            . "try { echo \"ready\n\"; (new Pillion\\MCPSSEClient($url))->callTool('slow', ['seconds' => 25]); } catch (Exception \$e) { echo \$e->getMessage(); }";
        $script = proc_open(
            [PHP_BINARY, '-d', 'extension=' . getenv('PILLION_EXTENSION'), '-r', $code],
            [['pipe', 'r'], ['pipe', 'w'], ['pipe', 'w']],
            $pipes,
        );
        self::assertNotFalse($script);
        self::assertSame("ready\n", fgets($pipes[1]));
        usleep(200_000);
        $started = microtime(true);
        proc_terminate($script, $signal);
        $output = (string) stream_get_contents($pipes[1]);
        $took = microtime(true) - $started;
        do {
            usleep(10_000);
            $status = proc_get_status($script);
        } while ($status['running']);
        proc_close($script);
        self::assertLessThan(15, $took);
        if ($handler === '') {
            self::assertSame(['', true, $signal], [$output, $status['signaled'], $status['termsig']]);
        } else {
            self::assertSame(['enough', 0], [$output, $status['exitcode']]);
        }
    }

    public function testWithoutThreadsThereAreExceptionsAndNoCrash(): void
    {
        $url = var_export(FakeServer::url(), true);
        $code = <<<PHP
            \$limit = function (bool \$on): void {
                preg_match('/VmSize:\\s+(\\d+)/', file_get_contents('/proc/self/status'), \$m);
                posix_setrlimit(POSIX_RLIMIT_AS, \$on ? (\$m[1] + 1200) * 1024 : POSIX_RLIMIT_INFINITY, POSIX_RLIMIT_INFINITY);
            };
            \$client = new Pillion\\MCPSSEClient($url);
            \$limit(true);
            try { \$client->callTool('echo'); } catch (Throwable \$e) { echo get_class(\$e), ': ', \$e->getMessage(), "\\n"; }
            \$limit(false);
            echo count(\$client->callTool('echo')), "\\n";
            \$named = new Pillion\\MCPSSEClient(str_replace('127.0.0.1', 'localhost', $url));
            \$limit(true);
            try { \$named->callTool('echo'); } catch (Throwable \$e) { echo get_class(\$e), ': ', \$e->getMessage(), "\\n"; }
            \$limit(false);
            echo count(\$named->callTool('echo')), ' ', count(\$client->callTool('echo')), "\\n";
            PHP;
        $ran = Process::php($code);
        $lines = explode("\n", $ran['output']);
        self::assertMatchesRegularExpression('/^Pillion.Exception.UnavailableException: Pillion cannot start its thread: /', $lines[0], $ran['errors']);
        self::assertSame('2', $lines[1]);
        self::assertMatchesRegularExpression('/^(Error: Pillion: internal error: |Pillion.Exception.)/', $lines[2], $ran['errors']);
        self::assertSame(['2 2', '', 0], [$lines[3], $lines[4], $ran['exit']]);
    }

    public function testPreloadedSubclassesUnderOpcacheAndJit(): void
    {
        $preload = tempnam(sys_get_temp_dir(), 'pillion');
        file_put_contents($preload, <<<'PHP'
            <?php
            class PreloadedClient extends Pillion\MCPSSEClient
            {
                public function __construct(string $url, private string $suffix = '!') { parent::__construct($url, 20); }
                public function who(): string { return strlen($this->callTool('who')['session']) . $this->suffix; }
            }
            final class PreloadedTool implements Pillion\ToolInterface
            {
                public function getName(): string { return 'double'; }
                public function getDefinition(): Pillion\ToolDefinition {
                    return new Pillion\ToolDefinition('double', 'Doubles', [['name' => 'n', 'type' => 'integer']]);
                }
                public function execute(array $arguments, string $toolCallId): Pillion\ToolResult {
                    return new Pillion\ToolResult($toolCallId, 'double', $arguments['n'] * 2);
                }
                public function isAvailableForProvider(string $providerClass): bool { return true; }
                public function isEnabledForModel(array|object $model): bool { return true; }
            }
            PHP);
        $code = <<<'PHP'
            $jit = opcache_get_status()['jit']['on'];
            $registry = new Pillion\ToolRegistry;
            $registry->register(new PreloadedTool);
            $executor = new Pillion\ToolExecutor($registry);
            $sum = 0;
            for ($i = 0; $i < 2000; $i++) {
                $sum += $executor->execute(new Pillion\ToolCall("$i", 'double', ['n' => $i]))->result;
            }
            echo (new PreloadedClient($url))->who(), ' ', $sum, ' ', json_encode($jit);
            PHP;
        $ran = $this->runPhp($code, [
            ...(extension_loaded('Zend OPcache') ? [] : ['-d', 'zend_extension=opcache']),
            '-d', 'opcache.preload_user=' . posix_getpwuid(posix_geteuid())['name'], '-d', 'opcache.enable_cli=1', '-d', "opcache.preload=$preload",
            '-d', 'opcache.jit=tracing', '-d', 'opcache.jit_buffer_size=16M', '-d', 'opcache.jit_hot_func=1',
        ]);
        unlink($preload);
        self::assertSame(['32! 3998000 true', 0], [$ran['output'], $ran['exit']], $ran['errors']);
    }
}
