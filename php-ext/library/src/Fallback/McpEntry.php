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
    /** The options that only McpClient has. */
    private const CLIENT_OPTIONS = [
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
            throw Failure::invalidInput("The option '$name' is set twice: in \$server and in \$options");
        }
        $settings += $options;
        $clientOptions = array_intersect_key($settings, array_flip(self::CLIENT_OPTIONS));
        $command = is_array($clientOptions['command'] ?? null) ? $clientOptions['command'][0] ?? null : $clientOptions['command'] ?? null;
        $url = $clientOptions['url'] ?? (is_string($command) ? 'stdio:' . basename($command) : null);
        if (!is_string($url) || isset($clientOptions['url'], $clientOptions['command'])) {
            throw Failure::invalidInput("A server needs exactly one of 'url' and 'command'");
        }
        if (($clientOptions['roots'] ?? []) !== []) {
            throw Failure::unavailable('The sidecar does not support roots: install the extension ext-pillion');
        }
        $timeout = $clientOptions['timeout'] ?? 30;
        if (!is_int($timeout) && !is_float($timeout)) {
            throw Failure::invalidInput("The option 'timeout' must be a number of seconds");
        }
        $apiKey = $clientOptions['api_key'] ?? null;
        if ($apiKey !== null && !is_string($apiKey)) {
            throw Failure::invalidInput("The option 'api_key' must be a string");
        }
        $serverOptions = array_diff_key($settings, $clientOptions);
        // OAuth settings are credentials as well, so `authentication` is set, which tells McpServer
        // that the server has credentials.
        if (isset($clientOptions['oauth'])) {
            $serverOptions += ['authentication' => ['type' => 'oauth']];
        }
        return new McpServer($url, $timeout, $apiKey, $serverOptions, self::CLIENT_OPTIONS);
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
        // `require_approval` is read only to report an invalid value early; the registry uses the
        // value later.
        RequireApproval::fromEntry($entry);
        $readText = static function (string $key) use ($entry): ?string {
            $text = is_string($entry[$key] ?? null) ? trim($entry[$key]) : '';
            return $text === '' ? null : $text;
        };
        $url = $readText('server_url');
        if ($url === null) {
            return null;
        }
        $timeout = $entry['timeout'] ?? 30;
        if (!is_int($timeout) && !is_float($timeout)) {
            throw Failure::invalidInput("The server's 'timeout' must be a number of seconds");
        }
        $options = $entry['options'] ?? [];
        if (!is_array($options)) {
            throw Failure::invalidInput('The options must be an array with string keys');
        }
        $label = $readText('server_label');
        return new MCPSSEClient($url, $timeout, $readText('api_key'), ($label === null ? [] : ['label' => $label]) + $options);
    }
}
