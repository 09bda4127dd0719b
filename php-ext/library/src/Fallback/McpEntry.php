<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Fallback\Registry\RequireApproval;
use Pillion\MCPSSEClient;

/**
 * Reads MCP servers given as arrays: the entries of adapters and registries, and the servers of clients.
 *
 * @internal
 */
final class McpEntry
{
    /** The options of McpClient in addition to those of every server. */
    private const MORE_OPTIONS = [
        'timeout', 'api_key', 'oauth', 'roots', 'description', 'url', 'command', 'args', 'env', 'inherit_env', 'cwd',
    ];

    /**
     * Reads the server of an McpClient: a URL, or an array with `url` or `command`, and options.
     *
     * @param string|array<array-key, mixed> $server
     * @param array<array-key, mixed>        $options
     *
     * @throws \Pillion\Exception\InvalidInputException
     * @throws \Pillion\Exception\UnavailableException  for roots
     */
    public static function server(
        #[\SensitiveParameter]
        string|array $server,
        #[\SensitiveParameter]
        array $options,
    ): McpServer {
        $settings = is_string($server) ? ['url' => $server] : $server;
        foreach (array_keys(array_intersect_key($settings, $options)) as $name) {
            throw Failure::invalidInput("The option '$name' is set twice: with the server and in the options");
        }
        $settings += $options;
        $clientOptions = array_intersect_key($settings, array_flip(self::MORE_OPTIONS));
        $command = is_array($clientOptions['command'] ?? null) ? $clientOptions['command'][0] ?? null : $clientOptions['command'] ?? null;
        $url = $clientOptions['url'] ?? (is_string($command) ? 'stdio:' . basename($command) : null);
        if (!is_string($url) || isset($clientOptions['url'], $clientOptions['command'])) {
            throw Failure::invalidInput("A server needs either a 'url' or a 'command'");
        }
        if (($clientOptions['roots'] ?? []) !== []) {
            throw Failure::unavailable('The sidecar does not support roots: install the extension ext-pillion');
        }
        $timeout = $clientOptions['timeout'] ?? 30;
        if (!is_int($timeout) && !is_float($timeout)) {
            throw Failure::invalidInput("The option 'timeout' must be a number of seconds");
        }
        $key = $clientOptions['api_key'] ?? null;
        if ($key !== null && !is_string($key)) {
            throw Failure::invalidInput("The option 'api_key' must be a string");
        }
        $rest = array_diff_key($settings, $clientOptions);
        // The options contain credentials also if they contain OAuth settings.
        $rest = isset($clientOptions['oauth']) ? $rest + ['authentication' => ['type' => 'oauth']] : $rest;
        return new McpServer($url, $timeout, $key, $rest, self::MORE_OPTIONS);
    }

    /**
     * Returns the client for a server entry; null without a URL.
     *
     * @param array<array-key, mixed> $entry
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function client(#[\SensitiveParameter] array $entry): ?MCPSSEClient
    {
        Json::encode($entry);
        // An invalid `require_approval` is reported here, although only the registry uses the
        // value.
        RequireApproval::fromEntry($entry);
        $text = static function (string $key) use ($entry): ?string {
            $text = is_string($entry[$key] ?? null) ? trim($entry[$key]) : '';
            return $text === '' ? null : $text;
        };
        $url = $text('server_url');
        if ($url === null) {
            return null;
        }
        $timeout = $entry['timeout'] ?? 30;
        if (!is_int($timeout) && !is_float($timeout)) {
            throw Failure::invalidInput("The server's 'timeout' must be a number of seconds");
        }
        $options = $entry['options'] ?? [];
        if (!is_array($options)) {
            throw Failure::invalidInput('The options must be an array with names as keys');
        }
        $label = $text('server_label');
        return new MCPSSEClient($url, $timeout, $text('api_key'), ($label === null ? [] : ['label' => $label]) + $options);
    }
}
