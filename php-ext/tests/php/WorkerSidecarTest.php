<?php

declare(strict_types=1);

namespace Pillion\Tests;

use PHPUnit\Framework\TestCase;
use Pillion\Exception\PillionException;
use Pillion\Sidecar;
use Pillion\Tests\Support\SidecarProcess;
use Pillion\Tests\Support\WorkerProcess;
use Pillion\ToolCall;

/** Workers of a real sidecar, and callers of their tools. */
final class WorkerSidecarTest extends TestCase
{
    private SidecarProcess $process;
    private Sidecar $sidecar;

    protected function setUp(): void
    {
        $this->process = new SidecarProcess();
        $this->sidecar = new Sidecar($this->process->socket);
    }

    protected function tearDown(): void
    {
        $this->process->stop();
    }

    public function testCallsToTheSidecarRunInPhp(): void
    {
        $worker = $this->worker();
        self::assertContains('find_order', array_column($this->sidecar->listTools(), 'name'));
        $found = $this->sidecar->execute(new ToolCall('1', 'find_order', ['number' => 3]));
        self::assertTrue($found->success, (string) $found->error);
        self::assertEquals(['number' => 3, 'price' => 1.0, 'lines' => [], 'notes' => []], $found->data);
        self::assertSame('42', $this->sidecar->execute(new ToolCall('2', 'twice'))->result);
        $failures = [
            'give' => [['what' => 'exception'], 'internal_error', 'Broken caf\xE9'],
            'find_order' => [['number' => 404], 'not_found', 'No order 404'],
            'twice' => [['number' => 'x'], 'invalid_input', 'Invalid type for number: expected integer'],
        ];
        foreach ($failures as $tool => [$arguments, $code, $message]) {
            $result = $this->sidecar->execute(new ToolCall('3', $tool, $arguments), ['user' => "caller of $tool"]);
            self::assertSame([$code, $message], [$result->errorCode, $result->error]);
        }
        self::assertSame('approval_required', $this->sidecar->execute(new ToolCall('4', 'delete_order'))->errorCode);
        $about = $this->sidecar->execute(new ToolCall('5', 'give', ['what' => 'about']), ['user' => 'alice', 'channel' => 'web']);
        self::assertSame(['alice', 'web'], array_slice(json_decode($about->result, true), 1, 2));
    }

    public function testCallsOfAnMcpClientRunInPhp(): void
    {
        $worker = $this->worker();
        $hello = ['protocolVersion' => '2025-06-18', 'capabilities' => new \stdClass(), 'clientInfo' => ['name' => 'test', 'version' => '1']];
        $this->mcp('initialize', $hello, 1);
        $this->mcp('notifications/initialized', []);
        $tools = array_column($this->mcp('tools/list', [], 2)['result']['tools'], null, 'name');
        self::assertSame(['Give', ['readOnlyHint' => true]], [$tools['give']['title'], $tools['give']['annotations']]);
        $result = $this->mcp('tools/call', ['name' => 'find_order', 'arguments' => ['number' => 3]], 3)['result'];
        self::assertEquals(['number' => 3, 'price' => 1.0, 'lines' => [], 'notes' => []], $result['structuredContent']);
        $blocks = $this->mcp('tools/call', ['name' => 'give', 'arguments' => ['what' => 'blocks']], 4)['result'];
        self::assertSame(['type' => 'image', 'mimeType' => 'image/png', 'data' => 'AAAA'], $blocks['content'][0]);
        $failed = $this->mcp('tools/call', ['name' => 'give', 'arguments' => ['what' => 'failure']], 5)['result'];
        self::assertSame([true, 'Not today'], [$failed['isError'], $failed['content'][0]['text']]);
    }

    public function testTwoWorkersShareTheCalls(): void
    {
        $workers = [$this->worker(), $this->worker()];
        $calls = array_map(fn (int $id) => new ToolCall((string) $id, 'work', ['seconds' => 1]), [1, 2]);
        $processes = array_map(fn ($result) => (int) $result->result, $this->sidecar->executeParallel($calls));
        sort($processes);
        $expected = array_map(fn (WorkerProcess $worker) => $worker->pid(), $workers);
        sort($expected);
        self::assertSame($expected, $processes);
    }

    public function testACallOfAKilledWorkerFailsAtOnce(): void
    {
        $worker = $this->worker();
        $call = $this->begin('rest', ['seconds' => 600]);
        usleep(300_000);
        $worker->signal(SIGKILL);
        self::assertStringContainsString('"unavailable"', $this->end($call));
        // Calls wait for the next worker now.
        $call = $this->begin('twice', []);
        $next = $this->worker();
        self::assertStringContainsString('42', $this->end($call));
    }

    public function testACallFailsAtOnceIfItsToolExits(): void
    {
        $worker = $this->worker();
        $result = $this->sidecar->execute(new ToolCall('1', 'give', ['what' => 'exit']));
        self::assertSame('unavailable', $result->errorCode);
        self::assertSame(3, $worker->ended());
    }

    public function testASignalEndsAWorkerAfterItsCall(): void
    {
        $worker = $this->worker();
        $call = $this->begin('rest', ['seconds' => 1]);
        usleep(300_000);
        $worker->signal(SIGTERM);
        self::assertStringContainsString('rested', $this->end($call));
        self::assertSame(0, $worker->ended());
        self::assertStringEndsWith("signal\n", $worker->output());
    }

    public function testWorkersThatEndLeaveNoCallUnanswered(): void
    {
        // Each worker ends after a few calls; together they run all calls.
        $workers = array_map(fn () => $this->worker(['maxCalls' => 4]), range(1, 3));
        $calls = array_map(fn (int $id) => new ToolCall((string) $id, 'twice', ['number' => $id]), range(1, 12));
        $results = $this->sidecar->executeParallel($calls);
        $expected = array_map(fn (int $id) => (string) (2 * $id), range(1, 12));
        self::assertSame($expected, array_map(fn ($result) => $result->result ?? $result->error, $results));
        foreach ($workers as $worker) {
            self::assertSame(0, $worker->ended());
            self::assertStringEndsWith("stopped: calls\ncalls\n", $worker->output());
        }
    }

    public function testAWorkerReconnectsToARestartedSidecar(): void
    {
        $worker = $this->worker();
        $this->process->restart();
        for ($tries = 0; $tries < 1_000; $tries++) {
            try {
                $result = $this->sidecar->execute(new ToolCall('1', 'twice'));
            } catch (PillionException) {
                continue;
            } finally {
                usleep(30_000);
            }
            if ($result->success) {
                break;
            }
            self::assertContains($result->errorCode, ['not_found', 'unavailable']);
        }
        self::assertSame('42', $result->result ?? null, $worker->output());
        self::assertStringContainsString('reconnecting', $worker->output());
    }

    public function testANameOfABuiltInToolIsRejected(): void
    {
        $code = 'require_once ' . var_export(__DIR__ . '/../../library/autoload.php', true) . ';'
            . '$worker = new Pillion\Worker(' . var_export($this->process->socket, true) . ", 'x');"
            . '$worker->add(new Pillion\ToolDefinition("calculator", "Mine"), fn () => 1)->run();';
        $ran = Support\Process::php($code, ['-d', 'display_errors=stderr']);
        self::assertStringContainsString('InvalidInputException: The sidecar rejected the tools: ', $ran['errors']);
        self::assertStringContainsString('calculator', $ran['errors']);
    }

    /** @param array<string, mixed> $arguments of `Worker::run()` */
    private function worker(array $arguments = []): WorkerProcess
    {
        $worker = new WorkerProcess($this->process->socket, $arguments);
        $worker->printed("offers find_order");
        return $worker;
    }

    /**
     * @param array<string, mixed> $arguments
     *
     * @return resource
     */
    private function begin(string $tool, array $arguments)
    {
        $stream = stream_socket_client("unix://{$this->process->socket}");
        self::assertIsResource($stream);
        $body = json_encode((object) $arguments);
        fwrite($stream, "POST /api/v1/tools/execute/$tool HTTP/1.1\r\nHost: pillion\r\nConnection: close\r\n"
            . 'Content-Type: application/json' . "\r\nContent-Length: " . strlen($body) . "\r\n\r\n$body");
        return $stream;
    }

    /** @param resource $call */
    private function end($call): string
    {
        stream_set_timeout($call, 60);
        return (string) stream_get_contents($call);
    }

    /**
     * @param array<string, mixed> $params
     *
     * @return ?array<string, mixed>
     */
    private function mcp(string $method, array $params, ?int $id = null): ?array
    {
        static $session = [];
        $curl = curl_init('http://pillion/mcp');
        $headers = ['Content-Type: application/json', 'Accept: application/json, text/event-stream', ...$session];
        if ($method !== 'initialize') {
            $headers[] = 'MCP-Protocol-Version: 2025-06-18';
        }
        curl_setopt_array($curl, [
            CURLOPT_UNIX_SOCKET_PATH => $this->process->socket,
            CURLOPT_HTTPHEADER => $headers,
            CURLOPT_POSTFIELDS => json_encode(['jsonrpc' => '2.0', 'method' => $method, 'params' => (object) $params] + ($id === null ? [] : ['id' => $id])),
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_HEADERFUNCTION => function ($curl, string $line) use (&$session): int {
                if (stripos($line, 'mcp-session-id:') === 0) {
                    $session = [trim($line)];
                }
                return strlen($line);
            },
        ]);
        $answer = (string) curl_exec($curl);
        if (preg_match('/^data: (\{.*)$/m', $answer, $found) === 1) {
            $answer = $found[1];
        }
        return $answer === '' ? null : json_decode($answer, true, flags: JSON_THROW_ON_ERROR);
    }
}
