<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Configuration\KnownSettings;
use SensitiveParameterValue;

/**
 * An entry of `pillion.servers`. The entry may contain credentials, so it cannot be serialized, and its
 * values are hidden from dumps, including `dd()`, which reads private properties.
 */
final class ServerConfig
{
    private const COMMAND_KEYS = ['command', 'args', 'env', 'inherit_env', 'cwd'];

    /** Options that contain credentials. */
    private const CREDENTIAL_OPTIONS = ['authentication', 'oauth', 'api_key', 'token'];

    private const CREDENTIAL_HEADERS = '/^\s*(proxy-)?authorization\s*$|^\s*cookie|api[-_]?key|token|secret/i';

    /**
     * @param SensitiveParameterValue $entry  array<string, mixed>, as configured
     * @param SensitiveParameterValue $url    ?string; may contain a password
     * @param list<string>         $only    tool names on the server; empty for all
     * @param list<string>         $except
     * @param ?class-string        $class   the tool class that calls the server itself
     */
    private function __construct(
        public readonly string $name,
        private readonly SensitiveParameterValue $entry,
        private readonly SensitiveParameterValue $url,
        public readonly string $prefix,
        public readonly array $only,
        public readonly array $except,
        public readonly string $requireApproval,
        public readonly bool $register,
        public readonly ?string $class,
    ) {
    }

    /**
     * @param array<string, mixed> $entry with the keys of {@see KnownSettings::server()}
     *
     * @throws InvalidInputException naming the invalid key
     */
    public static function fromArray(string $name, #[\SensitiveParameter] array $entry): self
    {
        KnownSettings::server()->check("pillion.servers.$name", $entry);
        $class = $entry['class'] ?? null;
        // An empty URL counts as missing, because the URL may come from an environment variable
        // that is unset or empty.
        $url = ($entry['url'] ?? null) ?: ($entry['server_url'] ?? null) ?: null;
        if ($url === null && ($entry['command'] ?? '') === '' && $class === null) {
            throw new InvalidInputException("MCP server '$name' has neither a url nor a command: set one of them");
        }
        return new self(
            $name,
            new SensitiveParameterValue($entry),
            new SensitiveParameterValue($url),
            $entry['prefix'] ?? $name . '_',
            array_values($entry['only'] ?? []),
            array_values($entry['except'] ?? []),
            $entry['require_approval'] ?? 'never',
            (bool) ($entry['register'] ?? true),
            $class,
        );
    }

    /**
     * Returns the server argument of `McpClient`.
     *
     * @param bool $omitsCredentials whether to omit the application's credentials
     *
     * @return string|array<string, mixed>
     */
    public function serverArgument(bool $omitsCredentials = false): string|array
    {
        if ($omitsCredentials && $this->url() !== null) {
            return (string) preg_replace('~^([a-z][a-z0-9+.-]*://)[^/?#]*@~i', '$1', $this->url());
        }
        return $this->url() ?? array_intersect_key($this->entry(), array_flip(self::COMMAND_KEYS));
    }

    /**
     * Returns the options of `McpClient`.
     *
     * @param ?string $token the user's own token, which replaces all credentials of the entry; empty for no credentials
     *
     * @return array<string, mixed>
     */
    public function options(#[\SensitiveParameter] ?string $token): array
    {
        $configuredOptions = $this->entry()['options'] ?? [];
        $options = ($token === null ? $configuredOptions : self::withoutCredentials($configuredOptions)) + ['label' => $this->label()];
        if (isset($this->entry()['timeout'])) {
            $options += ['timeout' => ConfigReader::toNumber($this->entry()['timeout'])];
        }
        $apiKey = $token ?? $this->entry()['token'] ?? $this->entry()['api_key'] ?? null;
        return $apiKey === null || $apiKey === '' ? $options : ['api_key' => $apiKey] + $options;
    }

    /**
     * Checks that the server can receive a user's token. Only a server with a URL can receive a
     * token: the process of a command is shared by all users, and a tool class calls its server
     * itself.
     *
     * @throws InvalidInputException
     */
    public function assertAcceptsUserTokens(): void
    {
        if ($this->url() === null || $this->class !== null) {
            throw new InvalidInputException(sprintf(
                "authenticateUsing() requires an MCP server with a url: '%s' is a %s",
                $this->name,
                $this->class !== null ? 'tool class' : 'command',
            ));
        }
    }

    /**
     * Returns the entry for a tool class (`server_url`, `server_label`, `api_key`, ...).
     *
     * @return array<string, mixed>
     */
    public function toolClassEntry(): array
    {
        $entry = $this->entry() + ['type' => 'mcp', 'server_label' => $this->name];
        if ($this->url() !== null) {
            $entry += ['server_url' => $this->url()];
        }
        if (isset($entry['token'])) {
            $entry += ['api_key' => $entry['token']];
        }
        return $entry;
    }

    /** Returns the label that identifies the server in limits and approvals. */
    public function label(): string
    {
        $label = $this->entry()['server_label'] ?? null;
        return is_string($label) && $label !== '' ? $label : $this->name;
    }

    /** Returns the address of the server without credentials. */
    public function displayAddress(): string
    {
        if ($this->url() === null) {
            $command = (array) ($this->entry()['command'] ?? '');
            return basename((string) reset($command));
        }
        $urlParts = parse_url($this->url()) ?: [];
        if (!isset($urlParts['scheme'], $urlParts['host'])) {
            return '(not a URL)';
        }
        $port = isset($urlParts['port']) ? ':' . $urlParts['port'] : '';
        return $urlParts['scheme'] . '://' . $urlParts['host'] . $port . ($urlParts['path'] ?? '');
    }

    /** Returns whether the server offers a tool, given by its name on the server. */
    public function isOffered(string $tool): bool
    {
        return ($this->only === [] || in_array($tool, $this->only, true)) && !in_array($tool, $this->except, true);
    }

    /** @return array<string, mixed> */
    public function __debugInfo(): array
    {
        return ['name' => $this->name, 'server' => $this->displayAddress(), 'prefix' => $this->prefix];
    }

    public function __serialize(): array
    {
        throw new \LogicException('A server entry cannot be serialized, because it may contain credentials: use Pillion::server()');
    }

    /**
     * @param array<string, mixed> $options
     *
     * @return array<string, mixed>
     */
    private static function withoutCredentials(#[\SensitiveParameter] array $options): array
    {
        $options = array_diff_key($options, array_flip(self::CREDENTIAL_OPTIONS));
        if (is_array($options['headers'] ?? null)) {
            $options['headers'] = array_filter(
                $options['headers'],
                fn (int|string $name) => preg_match(self::CREDENTIAL_HEADERS, (string) $name) !== 1,
                ARRAY_FILTER_USE_KEY,
            );
        }
        return $options;
    }

    /** @return array<string, mixed> */
    private function entry(): array
    {
        return $this->entry->getValue();
    }

    private function url(): ?string
    {
        return $this->url->getValue();
    }
}
