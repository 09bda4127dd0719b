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
 * The tools that the sidecar runs.
 *
 * @internal
 */
final class Remote
{
    /** For how long what the sidecar offers is taken to be so, in seconds. */
    private const OFFER_LASTS = 5.0;

    /** How long it may take to say so, in seconds. */
    private const OFFER_TIMEOUT = 5.0;

    /** @var array<string, array{float, list<string>}> until when it is so, and the names, by socket and category */
    private static array $offers = [];

    /** Whether the sidecar offers a tool of that name and category; not where it cannot be asked. */
    public static function offers(ToolDefinition $definition): bool
    {
        $socket = SocketPath::default();
        [$until, $names] = self::$offers["$socket\n$definition->category"] ?? [0.0, []];
        if (Deadline::now() >= $until) {
            try {
                $list = (new SidecarApi($socket, self::OFFER_TIMEOUT))->list('tools', $definition->category);
                $names = array_map(static fn (\stdClass $tool): string => (string) ($tool->name ?? ''), $list->tools);
            } catch (PillionException) {
                $names = [];
            }
            self::$offers["$socket\n$definition->category"] = [Deadline::now() + self::OFFER_LASTS, $names];
        }
        return in_array($definition->name, $names, true);
    }

    /** The name that the sidecar has for a tool; null for one that it does not run. */
    public static function nameOf(ToolInterface $tool): ?string
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
     * Runs a tool by itself, with all the checks of an executor.
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
