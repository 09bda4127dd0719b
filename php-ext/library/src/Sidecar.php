<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Batch;
use Pillion\Fallback\CallParser;
use Pillion\Fallback\Context;
use Pillion\Fallback\Json;
use Pillion\Fallback\SidecarApi;
use Pillion\Fallback\SocketPath;

/**
 * A client for the sidecar (`pillion serve`), over its Unix socket.
 */
class Sidecar
{
    private readonly string $socketPath;
    private readonly SidecarApi $api;

    /**
     * Creates a client without any I/O.
     *
     * @param ?string        $socketPath default: the socket of {@see resolveSocketUsing()}, the ini setting
     *                                   `pillion.socket` (extension only), `$PILLION_SOCKET`, or the default path
     * @param int|float|null $timeout    timeout of one call in seconds; default: the ini setting `pillion.timeout_ms`
     *                                   (extension only), or 60 seconds
     *
     * @throws Exception\InvalidInputException when the timeout is not valid
     */
    public function __construct(?string $socketPath = null, int|float|null $timeout = null)
    {
        Argument::checkTexts([1 => $socketPath]);
        $this->socketPath = $socketPath ?? SocketPath::default();
        $this->api = new SidecarApi($this->socketPath, Argument::checkSeconds('timeout', $timeout ?? 60));
    }

    /**
     * Sets a function that returns the default socket of all clients and connections. The function
     * takes precedence over the ini setting `pillion.socket`, `$PILLION_SOCKET` and the default
     * path. Pillion calls the function for each use of the socket, so the function can read an
     * application's current configuration.
     *
     * @param ?\Closure(): ?string $resolver returns a path; null or '' for the other settings
     */
    public static function resolveSocketUsing(?\Closure $resolver): void
    {
        SocketPath::setResolver($resolver);
    }

    public function getSocketPath(): string
    {
        return $this->socketPath;
    }

    /** Returns whether a sidecar responds to a request now. */
    public function isAvailable(): bool
    {
        try {
            $this->api->health();
            return true;
        } catch (Exception\PillionException) {
            return false;
        }
    }

    /**
     * Returns the available tools, including the tools that MCP servers list only for the context's user.
     *
     * @param array{user?: string, channel?: string, request_id?: string} $context
     *
     * @return list<array{name: string, description: string, parameters: list<array<string, mixed>>, category: string, server_label?: string}>
     *
     * @throws Exception\UnavailableException when the sidecar is not available
     * @throws Exception\PillionException
     */
    public function listTools(?string $category = null, array $context = []): array
    {
        Argument::checkTexts([1 => $category]);
        return Json::toArrays($this->api->list('tools', $category, Context::fromArray($context))->tools);
    }

    /**
     * @param array{user?: string, channel?: string, request_id?: string} $context as for {@see listTools()}
     *
     * @return list<array{type: 'function', function: array<string, mixed>}>
     *
     * @throws Exception\PillionException as {@see listTools()}
     */
    public function getSchemas(?string $category = null, array $context = []): array
    {
        Argument::checkTexts([1 => $category]);
        return Json::toLosslessArrays($this->api->list('schemas', $category, Context::fromArray($context))->schemas);
    }

    /**
     * Runs a tool and returns its data.
     *
     * @param array<string, mixed>                                          $arguments
     * @param array{user?: string, channel?: string, request_id?: string, approval?: string, approval_wait?: int|float, idempotency_key?: string} $context
     *
     * @throws Exception\UnavailableException when the sidecar is not available
     * @throws Exception\PillionException     when the tool fails; the error code determines the class
     */
    public function callTool(string $name, array $arguments = [], array $context = []): mixed
    {
        Argument::checkTexts([1 => $name]);
        return $this->api->execute($name, Json::encodeArguments($arguments), Context::fromArray($context))->dataOrThrow($name);
    }

    /**
     * Runs a call. Returns a failed result when the tool fails, when the call is too large for the sidecar, or
     * when the arguments cannot be converted to JSON.
     *
     * @param ToolCall|array<string, mixed>                                 $call
     * @param array{user?: string, channel?: string, request_id?: string, approval?: string, approval_wait?: int|float} $context
     *
     * @throws Exception\UnavailableException when the sidecar is not available
     * @throws Exception\PillionException
     */
    public function execute(ToolCall|array $call, array $context = []): ToolResult
    {
        return Batch::run($this->api, [CallParser::parseUnchecked($call)], 'sequential', Context::fromArray($context))[0];
    }

    /**
     * Runs calls one after the other, in as few requests as the sidecar accepts. A call that cannot be sent
     * becomes a failed result; the other calls run.
     *
     * @param list<ToolCall|array<string, mixed>>                           $calls
     * @param array{user?: string, channel?: string, request_id?: string, approval?: string, approval_wait?: int|float} $context
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws Exception\PillionException as {@see execute()}
     */
    public function executeAll(array $calls, array $context = []): array
    {
        return Batch::run($this->api, self::parseCalls($calls), 'sequential', Context::fromArray($context));
    }

    /**
     * Runs calls concurrently, in as few requests as the sidecar accepts: up to 100 calls in each request, or
     * fewer if the sidecar is configured with lower limits. A call that cannot be sent becomes a failed result.
     *
     * @param list<ToolCall|array<string, mixed>>                           $calls
     * @param array{user?: string, channel?: string, request_id?: string, approval?: string, approval_wait?: int|float} $context
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws Exception\PillionException as {@see execute()}
     */
    public function executeParallel(array $calls, array $context = []): array
    {
        return Batch::run($this->api, self::parseCalls($calls), 'parallel', Context::fromArray($context));
    }

    /**
     * Returns the approvals of the sidecar, pending and decided, newest first.
     *
     * @param array{status?: 'pending'|'approved'|'denied'|'expired', tool?: string, user?: string, limit?: int, after?: string} $filter
     *
     * @return list<array{id: string, status: string, tool: string, server?: string, user?: string, user_is_verified: bool, principal?: string, channel?: string, arguments?: array<string, mixed>, forwarded?: array<string, mixed>, approved_arguments?: array<string, mixed>, arguments_hash: string, call_id?: string, created_at: string, expires_at: string, decided_by?: string, decided_at?: string, reason?: string, used_at?: string}>
     *
     * @throws Exception\InvalidInputException when a filter is unknown
     * @throws Exception\PillionException      as {@see listTools()}
     */
    public function listApprovals(array $filter = []): array
    {
        return Json::toArrays($this->api->approvals($filter));
    }

    /**
     * Approves one run of a call that waits for approval. The sidecar records the user of this process as the
     * approver.
     *
     * @param ?array<string, mixed> $arguments the arguments that replace the call's original arguments. A redacted value
     *                                         that is copied unchanged from the approval means the original value
     *
     * @return array{id: string, status: string, tool: string, user?: string, arguments?: array<string, mixed>, decided_by?: string, reason?: string, ...} the updated approval
     *
     * @throws Exception\NotFoundException     when the approval does not exist
     * @throws Exception\InvalidInputException when the approval has already been decided or has expired, or when the arguments are invalid
     * @throws Exception\PillionException      as {@see listTools()}
     */
    public function approve(string $approvalId, ?string $reason = null, ?array $arguments = null): array
    {
        Argument::checkTexts([1 => $approvalId, 2 => $reason]);
        return Json::toArrays($this->api->decide($approvalId, 'approve', $reason, $arguments));
    }

    /**
     * Denies a call that waits for approval.
     *
     * @return array{id: string, status: string, tool: string, user?: string, arguments?: array<string, mixed>, decided_by?: string, reason?: string, ...} the updated approval
     *
     * @throws Exception\PillionException as {@see approve()}
     */
    public function deny(string $approvalId, ?string $reason = null): array
    {
        Argument::checkTexts([1 => $approvalId, 2 => $reason]);
        return Json::toArrays($this->api->decide($approvalId, 'deny', $reason));
    }

    /**
     * @param array<array-key, mixed> $calls
     *
     * @return list<ToolCall>
     */
    private static function parseCalls(array $calls): array
    {
        return array_map(CallParser::parseUnchecked(...), array_values($calls));
    }
}
