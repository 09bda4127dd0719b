<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Fallback\Json;
use Pillion\MCPToolInterface;
use Pillion\ToolInterface;

/**
 * The MCP server that a tool comes from.
 *
 * @internal
 */
final class ToolOrigin
{
    public function __construct(public readonly string $label, public readonly string $url)
    {
    }

    /** Returns the origin of a tool; null for a tool that belongs to no server. */
    public static function forTool(ToolInterface $tool): ?self
    {
        return $tool instanceof MCPToolInterface ? self::fromEntry($tool->getMCPServerConfig()) : null;
    }

    /** @param array<string, mixed> $entry */
    public static function fromEntry(array $entry): self
    {
        Json::encode($entry);
        $readText = static fn (string $key): string => is_string($entry[$key] ?? null) ? $entry[$key] : '';
        return new self($readText('server_label'), $readText('server_url'));
    }
}
