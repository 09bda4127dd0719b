<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * The MCP servers of the sidecar, read from the sidecar's list of tools.
 *
 * @internal
 */
final class SidecarServers
{
    public function __construct(private readonly SidecarApi $api)
    {
    }

    /**
     * Returns the tools of the server with this label. If no server has the label, returns the
     * tools of the server at this URL.
     *
     * @return non-empty-list<array{name: string, sidecarName: string, description: string, schema: \stdClass, label: string}>
     *
     * @throws \Pillion\Exception\UnavailableException when the sidecar does not know the server
     * @throws \Pillion\Exception\TransportException   when the sidecar cannot reach the server
     * @throws \Pillion\Exception\PillionException
     */
    public function findTools(?string $label, string $url): array
    {
        $toolList = $this->api->list('tools');
        $filterTools = static fn (string $key, ?string $value): array => $value === null ? [] : array_values(array_filter(
            $toolList->tools,
            static fn (\stdClass $tool): bool => ($tool->$key ?? null) === $value,
        ));
        $tools = $filterTools('server_label', $label) ?: $filterTools('server_url', $url);
        if ($tools === []) {
            throw $this->unknownServer($label, $url, $toolList->unavailable_servers ?? []);
        }
        $schemas = $this->loadSchemas();
        return array_map(static fn (\stdClass $tool): array => [
            'name' => self::readText($tool, 'server_tool'),
            'sidecarName' => self::readText($tool, 'name'),
            'description' => self::readText($tool, 'description'),
            'schema' => $schemas[$tool->name] ?? throw Failure::transport("The sidecar returned no schema for its tool '$tool->name'"),
            'label' => self::readText($tool, 'server_label'),
        ], $tools);
    }

    /** @return array<string, \stdClass> the argument schemas, by the sidecar's tool names */
    private function loadSchemas(): array
    {
        $schemas = [];
        foreach ($this->api->list('schemas')->schemas as $schema) {
            $function = $schema->function ?? null;
            if (!is_string($function->name ?? null) || !($function->parameters ?? null) instanceof \stdClass) {
                throw Failure::transport("The sidecar's list 'schemas' has an entry without a name or parameters");
            }
            $schemas[$function->name] = $function->parameters;
        }
        return $schemas;
    }

    private function unknownServer(?string $label, string $url, mixed $unavailableServers): \Throwable
    {
        $labels = [];
        foreach (is_array($unavailableServers) ? $unavailableServers : [] as $server) {
            if (is_string($server->label ?? null)) {
                $labels[] = $server->label;
                if ($server->label === $label) {
                    return Failure::transport(is_string($server->error ?? null) ? $server->error : "The sidecar cannot reach '$label'");
                }
            }
        }
        $serverName = $label === null ? $url : "'$label' ($url)";
        $unreachableNote = $labels === [] ? '' : ' Unreachable servers: ' . implode(', ', $labels) . '.';
        return Failure::unavailable(
            "The sidecar has no MCP server $serverName with tools.$unreachableNote Add it to the sidecar's configuration, or install the extension ext-pillion",
        );
    }

    private static function readText(\stdClass $tool, string $key): string
    {
        return is_string($tool->$key ?? null)
            ? $tool->$key
            : throw Failure::transport("The sidecar's list 'tools' has an entry without '$key'");
    }
}
