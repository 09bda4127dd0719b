<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Answer;
use Pillion\Fallback\Argument;
use Pillion\Fallback\Calls;
use Pillion\Fallback\Context;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\Request;
use Pillion\Fallback\Http\Transports;
use Pillion\Fallback\Json;
use Pillion\Fallback\SocketPath;

/**
 * The sidecar `pillion serve`, through its Unix socket.
 */
class Sidecar
{
    private const TOOLS = '/api/v1/tools/';

    private readonly string $socketPath;
    private readonly float $timeout;

    /**
     * Does no I/O.
     *
     * @param ?string   $socketPath unless set: `$PILLION_SOCKET`, or the default path
     * @param int|float $timeout    seconds for one call, with all it does
     *
     * @throws Exception\InvalidInputException when the timeout is not valid
     */
    public function __construct(?string $socketPath = null, int|float $timeout = 60)
    {
        Argument::texts([1 => $socketPath]);
        $this->socketPath = $socketPath ?? SocketPath::default();
        $this->timeout = Argument::seconds('timeout', $timeout);
    }

    public function getSocketPath(): string
    {
        return $this->socketPath;
    }

    /** Whether a sidecar answers now. */
    public function isAvailable(): bool
    {
        try {
            $this->send(new Request('/healthz'));
            return true;
        } catch (Exception\PillionException) {
            return false;
        }
    }

    /**
     * @return list<array{name: string, description: string, parameters: list<array<string, mixed>>, category: string, server_label?: string}>
     *
     * @throws Exception\UnavailableException when there is no sidecar
     * @throws Exception\PillionException
     */
    public function listTools(?string $category = null): array
    {
        return $this->list('', 'tools', $category, static fn (mixed $tree): mixed => Json::arrays($tree));
    }

    /**
     * @return list<array{type: 'function', function: array<string, mixed>}>
     *
     * @throws Exception\PillionException as {@see listTools()}
     */
    public function getSchemas(?string $category = null): array
    {
        return $this->list('schemas', 'schemas', $category, static fn (mixed $tree): mixed => Json::shown($tree));
    }

    /**
     * Runs a tool and returns its data.
     *
     * @param array<string, mixed>                                          $arguments
     * @param array{user?: string, channel?: string, request_id?: string} $context
     *
     * @throws Exception\UnavailableException when there is no sidecar
     * @throws Exception\PillionException     when the tool fails; the class fits the error code
     */
    public function callTool(string $name, array $arguments = [], array $context = []): mixed
    {
        Argument::texts([1 => $name]);
        // A dot would be a step to another path.
        $path = self::TOOLS . 'execute/' . str_replace('.', '%2E', rawurlencode($name));
        $body = Json::encodeArguments($arguments);
        $answer = $this->send(new Request($path, Context::of($context)->headers(), $body));
        return Answer::of(Json::arrays($answer))->dataOrThrow();
    }

    /**
     * Runs a call. A tool that fails is a failed result.
     *
     * @param ToolCall|array<string, mixed>                                 $call
     * @param array{user?: string, channel?: string, request_id?: string} $context
     *
     * @throws Exception\UnavailableException when there is no sidecar
     * @throws Exception\PillionException
     */
    public function execute(ToolCall|array $call, array $context = []): ToolResult
    {
        return $this->batch([Calls::one($call)], 'sequential', $context)[0];
    }

    /**
     * Runs calls one after the other, in one request.
     *
     * @param list<ToolCall|array<string, mixed>>                           $calls
     * @param array{user?: string, channel?: string, request_id?: string} $context
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws Exception\PillionException as {@see execute()}
     */
    public function executeAll(array $calls, array $context = []): array
    {
        return $this->batch(Calls::all($calls), 'sequential', $context);
    }

    /**
     * Runs calls side by side, in one request.
     *
     * @param list<ToolCall|array<string, mixed>>                           $calls
     * @param array{user?: string, channel?: string, request_id?: string} $context
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws Exception\PillionException as {@see execute()}
     */
    public function executeParallel(array $calls, array $context = []): array
    {
        return $this->batch(Calls::all($calls), 'parallel', $context);
    }

    /**
     * @param list<ToolCall>          $calls
     * @param array<array-key, mixed> $context
     *
     * @return list<ToolResult>
     */
    private function batch(array $calls, string $mode, array $context): array
    {
        $body = Json::encode([
            'calls' => array_map(static fn (ToolCall $call): array => [
                'id' => $call->id,
                'name' => $call->name,
                'arguments' => $call->arguments === [] ? new \stdClass() : $call->arguments,
            ], $calls),
            'mode' => $mode,
        ]);
        $answer = $this->send(new Request(self::TOOLS . 'batch-execute', Context::of($context)->headers(), $body));
        $results = Json::arrays($answer->results ?? null);
        if (!is_array($results) || !array_is_list($results) || count($results) !== count($calls)) {
            throw Failure::transport("The sidecar's answer has no result for each call");
        }
        return array_map(
            static fn (ToolCall $call, mixed $result): ToolResult => Answer::of($result)->toResult($call->id, $call->name),
            $calls,
            $results,
        );
    }

    /**
     * @param \Closure(mixed): mixed $read
     *
     * @return list<array<string, mixed>>
     */
    private function list(string $route, string $field, ?string $category, \Closure $read): array
    {
        Argument::texts([1 => $category]);
        $query = $category === null ? '' : '?category=' . rawurlencode($category);
        $list = $this->send(new Request(self::TOOLS . $route . $query))->$field ?? null;
        if (!is_array($list)) {
            throw Failure::transport("The sidecar's answer has no list '$field'");
        }
        foreach ($list as $entry) {
            if (!$entry instanceof \stdClass) {
                throw Failure::transport("The sidecar's list '$field' has an entry that is no object");
            }
        }
        return $read($list);
    }

    /** The body of an answer with status 200. */
    private function send(Request $request): \stdClass
    {
        $response = Transports::to($this->socketPath)->send($request, new Deadline($this->timeout));
        try {
            $body = Json::parse($response->body);
        } catch (\JsonException $e) {
            throw Failure::transport("The sidecar's answer (HTTP status $response->status) is not the JSON it should be: {$e->getMessage()}");
        }
        if (!$body instanceof \stdClass) {
            throw Failure::transport("The sidecar's answer (HTTP status $response->status) is no JSON object");
        }
        if ($response->status === 200) {
            return $body;
        }
        if (!is_string($body->error ?? null) || !is_string($body->error_code ?? null)) {
            throw Failure::transport("The sidecar answered with HTTP status $response->status");
        }
        throw Failure::ofCode($body->error_code, $body->error);
    }
}
