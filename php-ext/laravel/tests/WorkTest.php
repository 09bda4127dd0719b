<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Support\Facades\DB;
use Pillion\Laravel\Tests\Fixtures\LabelledTool;
use Pillion\Laravel\Tests\Fixtures\WorkTools;
use Pillion\Laravel\Tests\Support\Laravel;
use Pillion\Laravel\Tests\Support\Sidecar;
use Pillion\Laravel\Work\CallScope;
use Pillion\Tests\Support\FakeSidecar;
use Pillion\ToolCall;

/** `artisan pillion:work` in a separate process; the test is the sidecar. */
final class WorkTest extends TestCase
{
    /** @var list<resource> */
    private array $processes = [];

    protected function tearDown(): void
    {
        foreach ($this->processes as $process) {
            if (is_resource($process)) {
                proc_terminate($process, SIGKILL);
            }
        }
        parent::tearDown();
    }

    /** @return array<string, string> */
    protected function files(): array
    {
        $pillion = [
            'tools' => ['classes' => [WorkTools::class, LabelledTool::class]],
            'approvals' => ['tools' => ['whoami' => 'always-ask']],
            'limits' => ['tool_timeouts' => ['whoami' => 5], 'rate_limits' => ['tools' => ['limited' => ['per_hour' => 1]]]],
        ];
        return [
            'config/pillion.php' => '<?php return ' . var_export($pillion, true) . ';',
            ...self::DATABASE_FILE,
        ];
    }

    public function test_it_offers_the_tools_of_the_application(): void
    {
        [$sidecar, , , $offer] = $this->work();
        self::assertSame('Test', $offer['name']);
        $tools = array_column($offer['tools'], null, 'name');
        ksort($tools);
        self::assertSame(['broken', 'labelled', 'limited', 'untidy', 'whoami'], array_keys($tools), 'not those that the sidecar has');
        self::assertSame([true, 5_000], [$tools['whoami']['requiresConfirmation'], $tools['whoami']['timeoutMs']]);
        self::assertFalse($tools['untidy']['requiresConfirmation']);
        self::assertTrue($tools['labelled']['requiresConfirmation'], 'its entry requires confirmation');
    }

    public function test_no_state_of_a_call_is_visible_to_the_next(): void
    {
        [$sidecar] = $this->work();
        $expected = ['calls' => 1, 'notes' => 0, 'user' => null, 'level' => 1];
        self::assertEquals($expected, $sidecar->call('untidy')['structuredContent']);
        self::assertEquals($expected, $sidecar->call('untidy')['structuredContent']);
    }

    public function test_calls_are_logged_and_exceptions_reported(): void
    {
        [$sidecar, $process, $pipes] = $this->work('--name=shop', '--max-calls=3');
        $sidecar->sendCall(1, 'whoami', [], ['user' => 'alice']);
        self::assertSame('alice', $sidecar->receive()['result']['structuredContent']['user']);
        $failed = $sidecar->call('broken');
        self::assertSame([true, 'internal_error', 'This is broken'], [$failed['isError'], $failed['errorCode'], $failed['content'][0]['text']]);
        $sidecar->sendCall(3, 'whoami');
        self::assertSame('worker/draining', $sidecar->receive()['method']);
        $sidecar->receive();
        $sidecar->receive();
        $sidecar->disconnect();
        $printed = (string) stream_get_contents($pipes[1]);
        self::assertSame(0, proc_close($process), $printed);
        self::assertMatchesRegularExpression("/^\\[.*\\] Worker 'shop' offers .*whoami/m", $printed);
        self::assertMatchesRegularExpression("/^\\[.*\\] Tool 'whoami' succeeded call=call-1 duration_ms=\\d+$/m", $printed);
        self::assertMatchesRegularExpression("/^\\[.*\\] Tool 'broken' failed: internal_error call=.*$/m", $printed);
        self::assertStringContainsString("Worker 'shop' stopped: calls calls=3", $printed);
        self::assertStringContainsString('DomainException', (string) file_get_contents("{$this->folder->path}/storage/logs/laravel.log"));
    }

    public function test_limits_and_events_of_the_application_apply(): void
    {
        [$sidecar, $process, $pipes] = $this->work();
        self::assertSame('once', $sidecar->call('limited')['content'][0]['text']);
        self::assertSame('rate_limited', $sidecar->call('limited')['errorCode']);
        proc_terminate($process, SIGTERM);
        self::assertSame('worker/draining', $sidecar->receive()['method']);
        $sidecar->disconnect();
        $printed = (string) stream_get_contents($pipes[1]);
        self::assertSame(0, proc_close($process), $printed);
        self::assertStringContainsString('finished limited', $printed);
    }

    public function test_claiming_another_user_does_not_bypass_a_limit(): void
    {
        [$sidecar] = $this->work();
        $of = static fn (string $user): array => ['claimedUser' => $user, 'principal' => 'token:ci'];
        $sidecar->sendCall(1, 'limited', [], $of('alice'));
        self::assertArrayNotHasKey('isError', $sidecar->receive()['result']);
        $sidecar->sendCall(2, 'limited', [], $of('bob'));
        self::assertSame('rate_limited', $sidecar->receive()['result']['errorCode']);
        $sidecar->sendCall(3, 'limited', [], ['user' => 'alice', 'principal' => 'uid:33']);
        self::assertArrayNotHasKey('isError', $sidecar->receive()['result']);
    }

    public function test_calls_to_the_sidecar_run_in_the_application(): void
    {
        $this->needsASidecar();
        [$process, $pipes] = $this->start(Sidecar::socket());
        self::assertStringContainsString('offers', (string) fgets($pipes[1]));
        $sidecar = new \Pillion\Sidecar(Sidecar::socket());
        self::assertSame('once', $sidecar->execute(new ToolCall('1', 'limited'), ['user' => 'alice'])->result);
        $refused = $sidecar->execute(new ToolCall('2', 'limited'), ['user' => 'alice']);
        self::assertSame('rate_limited', $refused->errorCode, (string) $refused->error);
        self::assertSame('approval_required', $sidecar->execute(new ToolCall('3', 'whoami'))->errorCode);
        proc_terminate($process, SIGTERM);
        self::assertStringContainsString("stopped: signal", (string) stream_get_contents($pipes[1]));
        self::assertSame(0, proc_close($process));
    }

    public function test_a_connection_lost_in_a_transaction_is_reopened(): void
    {
        $lost = DB::connection();
        $lost->setPdo(new class ('sqlite::memory:') extends \PDO {
            public function rollBack(): bool
            {
                throw new \PDOException('SQLSTATE[HY000]: General error: 2006 MySQL server has gone away');
            }
        });
        DB::beginTransaction();
        (new CallScope($this->app))->end(null);
        self::assertNotSame($lost, DB::connection());
        self::assertSame([0, 1], [DB::transactionLevel(), DB::selectOne('select 1 as one')->one]);
    }

    public function test_exit_codes(): void
    {
        [$sidecar, $process] = $this->work('--memory=1');
        $sidecar->sendCall(1, 'whoami');
        self::assertSame('worker/draining', $sidecar->receive()['method']);
        $sidecar->receive();
        $sidecar->receive();
        $sidecar->disconnect();
        self::assertSame(12, proc_close($process));

        $sidecar = new FakeSidecar();
        [$process, $pipes] = $this->start($sidecar->socket);
        $sidecar->accept("HTTP/1.1 409 Conflict\r\nContent-Length: 24\r\n\r\n{\"detail\":\"It is taken\"}");
        self::assertStringContainsString('The sidecar rejected the tools: It is taken', (string) stream_get_contents($pipes[1]));
        self::assertSame(1, proc_close($process));

        self::assertSame([2, "--max-time must be a whole number of at least 0.\n"], $this->artisanOutput('pillion:work --max-time=soon'));
    }

    /** @return array{FakeSidecar, resource, array<int, resource>, array<string, mixed>} */
    private function work(string ...$options): array
    {
        $sidecar = new FakeSidecar();
        [$process, $pipes] = $this->start($sidecar->socket, ...$options);
        return [$sidecar, $process, $pipes, $sidecar->accept()];
    }

    /** @return array{resource, array<int, resource>} */
    private function start(string $socket, string ...$options): array
    {
        $started = Laravel::start($this->folder->path, ['PILLION_SOCKET' => $socket], 'pillion:work', ...$options);
        $this->processes[] = $started[0];
        return $started;
    }
}
