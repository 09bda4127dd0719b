<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Fallback\Failure;
use Pillion\MCPToolInterface;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;

/**
 * A tool in a registry.
 *
 * @internal
 */
final class ToolEntry
{
    private static int $lastNumber = 0;

    private function __construct(
        /** The registration number; a later tool of the same name has another number. */
        public readonly int $number,
        public readonly ToolInterface $tool,
        public readonly ToolDefinition $definition,
        public readonly ?ToolOrigin $origin,
        /** The approval policy that the entry of the tool's MCP server sets. */
        public readonly ?string $approvalPolicy,
    ) {
    }

    /** @throws \Pillion\Exception\InvalidInputException */
    public static function forTool(ToolInterface $tool): self
    {
        $definition = $tool->getDefinition();
        $name = $tool->getName();
        if ($name !== $definition->name) {
            throw Failure::invalidInput("Tool '$name' must have a definition with the same name, not '$definition->name'");
        }
        $origin = ToolOrigin::forTool($tool);
        $policy = $tool instanceof MCPToolInterface ? RequireApproval::fromEntry($tool->getMCPServerConfig())->policyForPhpTool($name) : null;
        return new self(++self::$lastNumber, $tool, $definition, $origin, $policy);
    }
}
