<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\MCPServerTool;
use Pillion\NativeTool;
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
