<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\PillionException;
use Pillion\Fallback\Http\Deadline;
use Pillion\MCPServerTool;
use Pillion\NativeTool;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * The tools that run in the sidecar.
 *
 * @internal
 */
final class SidecarTools
{
    /** Time in seconds during which the sidecar's list of tools is cached. */
    private const TOOL_LIST_TTL = 5.0;

    /** Timeout of the request for the sidecar's list of tools, in seconds. */
    private const TOOL_LIST_TIMEOUT = 5.0;

    /** @var array<string, array{float, list<string>}> expiry time and tool names, by socket and category */
    private static array $cachedLists = [];

    /**
     * Returns whether the sidecar offers a tool with this name and category; returns false if the
     * sidecar does not respond.
     */
    public static function has(ToolDefinition $definition): bool
    {
        $socket = SocketPath::default();
        [$expiresAt, $toolNames] = self::$cachedLists["$socket\n$definition->category"] ?? [0.0, []];
        if (Deadline::now() >= $expiresAt) {
            try {
                $toolList = (new SidecarApi($socket, self::TOOL_LIST_TIMEOUT))->list('tools', $definition->category);
                $toolNames = array_map(static fn (\stdClass $tool): string => (string) ($tool->name ?? ''), $toolList->tools);
            } catch (PillionException) {
                $toolNames = [];
            }
            self::$cachedLists["$socket\n$definition->category"] = [Deadline::now() + self::TOOL_LIST_TTL, $toolNames];
        }
        return in_array($definition->name, $toolNames, true);
    }

    /** Returns a tool's name in the sidecar; null for a tool that does not run in the sidecar. */
    public static function findSidecarName(ToolInterface $tool): ?string
    {
        return match (true) {
            $tool instanceof NativeTool => $tool->getName(),
            $tool instanceof MCPServerTool => \Closure::bind(
                static fn (MCPServerTool $tool): string => $tool->sidecarName,
                null,
                MCPServerTool::class,
            )($tool),
            default => null,
        };
    }

    /**
     * Runs a single tool with all checks of an executor.
     *
     * @param array<array-key, mixed> $arguments
     */
    public static function run(ToolInterface $tool, array $arguments, string $toolCallId): ToolResult
    {
        $registry = new ToolRegistry();
        $registry->register($tool);
        return $registry->execute($tool->getName(), $arguments, $toolCallId);
    }
}
