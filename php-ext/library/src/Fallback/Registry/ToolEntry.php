<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Fallback\Failure;
use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Schema\CompiledSchema;
use Pillion\Fallback\Schema\SchemaError;
use Pillion\MCPToolInterface;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;

/**
 * A tool in a registry, with its compiled schema.
 *
 * @internal
 */
final class ToolEntry
{
    private function __construct(
        public readonly ToolInterface $tool,
        public readonly ToolDefinition $definition,
        public readonly ?ToolOrigin $origin,
        /** Null for an MCP tool with an unusable schema: only its server validates the arguments. */
        public readonly ?CompiledSchema $schema,
        /** The approval policy that the entry of the tool's MCP server sets. */
        public readonly ?string $approvalPolicy,
    ) {
    }

    /** @throws \Pillion\Exception\InvalidInputException */
    public static function of(ToolInterface $tool): self
    {
        $definition = $tool->getDefinition();
        $name = $tool->getName();
        if ($name !== $definition->name) {
            throw Failure::invalidInput("Tool '$name' has a definition of the name '$definition->name'");
        }
        $origin = ToolOrigin::of($tool);
        try {
            $schema = CompiledSchema::compile(InputSchema::tree($definition));
        } catch (SchemaError $e) {
            $schema = $origin !== null ? null : throw Failure::invalidInput("Tool '$name': {$e->getMessage()}");
        }
        $policy = $tool instanceof MCPToolInterface ? RequireApproval::ofEntry($tool->getMCPServerConfig())->policyForPhpTool($name) : null;
        return new self($tool, $definition, $origin, $schema, $policy);
    }
}
