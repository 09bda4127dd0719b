<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\CallParser;
use Pillion\Fallback\ClientHooks;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\Fallback\McpServer;

/**
 * A client for an MCP server. The extension's process owns the sessions: clients with the same
 * server, configuration and credentials share one open session, even across requests of an FPM
 * worker.
 *
 * With the library, the sidecar connects to the server, with the credentials, limits and timeouts of
 * the sidecar's configuration. The sidecar finds the server by the option `label`, or otherwise by its URL.
 */
class MCPSSEClient
{
    use ClientHooks;

    /**
     * Creates a client without any I/O.
     *
     * @param int|float|null       $timeout timeout of one call in seconds, including retries and reconnects; default: the
     *                                      ini setting `pillion.timeout_ms` (extension only), or 30 seconds
     * @param ?string              $apiKey  sent as a bearer token
     * @param array<string, mixed> $options see docs/reference/php-mcp-clients.md
     *
     * @throws Exception\InvalidInputException when the URL or an option is not valid
     */
    public function __construct(
        #[\SensitiveParameter]
        string $serverUrl,
        int|float|null $timeout = null,
        #[\SensitiveParameter]
        ?string $apiKey = null,
        #[\SensitiveParameter]
        array $options = [],
    ) {
        $this->server = new McpServer($serverUrl, $timeout ?? 30, $apiKey, $options);
    }

    /**
     * Sends a request with any method, and returns the JSON-RPC `result` unchanged, with objects as
     * associative arrays. The library supports only `tools/call` and `tools/list`.
     *
     * @param array<string, mixed> $params
     *
     * @throws Exception\UnavailableException   with the library: when the sidecar is not available, does not know the server, or does not support the request
     * @throws Exception\TransportException     when the server cannot be reached or sends an invalid response
     * @throws Exception\AuthorizationException when the server requires a credential or rejects it
     * @throws Exception\TimeoutException
     * @throws Exception\JsonRpcException       when the server responds with a JSON-RPC error
     * @throws Exception\RateLimitedException   when the server responds with HTTP 429
     * @throws Exception\InvalidInputException  when the parameters cannot be converted to JSON
     */
    public function request(string $method, array $params = []): mixed
    {
        Argument::checkTexts([1 => $method]);
        Json::encode($params);
        return match ($method) {
            'tools/list' => ['tools' => Json::toArrays($this->server()->listTools())],
            'tools/call' => $this->callTool(...CallParser::parseParameters($params)),
            default => throw Failure::unavailable(
                "The sidecar does not support the request '$method': install the extension ext-pillion",
            ),
        };
    }

    /**
     * Returns the server's tools as listed by the server. Returns an empty list and logs an error if the
     * request fails.
     *
     * @return list<array<string, mixed>>
     */
    public function listTools(): array
    {
        try {
            return Json::toArrays($this->server()->listTools());
        } catch (Exception\PillionException $exception) {
            $context = ['url' => $this->server()->displayUrl(), 'error' => $exception->getMessage()];
            $this->server()->hooks->log('error', 'Failed to list MCP tools', $context);
            return [];
        }
    }

    /**
     * Calls a tool and returns the result unchanged, even if the result has `isError`.
     *
     * @param array<string, mixed> $arguments
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function callTool(string $name, array $arguments = []): mixed
    {
        return Json::toArrays($this->server()->call($name, $arguments));
    }

    /** Returns whether the server responds to a request now. */
    public function isAvailable(): bool
    {
        return $this->server()->isAvailable();
    }
}
