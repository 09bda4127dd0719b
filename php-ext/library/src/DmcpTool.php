<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Executor\ToolFailure;
use Pillion\Fallback\Failure;

/**
 * The tool `dmcp_roll_dice`: rolls dice on a remote MCP server.
 *
 * The server entry can rename the remote tool (`tool_name`, default `roll`) and the arguments
 * (`argument_names`, for example `['dice' => 'diceRollExpression', 'reason' => null]`; null omits an
 * argument).
 */
class DmcpTool extends MCPToolAdapter
{
    private const NAME = 'dmcp_roll_dice';

    public function getName(): string
    {
        return self::NAME;
    }

    public function getDefinition(): ToolDefinition
    {
        return new ToolDefinition(
            self::NAME,
            'Rolls dice for Dungeons & Dragons, such as "1d20", "2d6+3" or "1d20 advantage".',
            [
                [
                    'name' => 'dice',
                    'type' => 'string',
                    'description' => 'The dice to roll, such as "1d20", "2d6+3" or "1d20 advantage"',
                ],
                [
                    'name' => 'reason',
                    'type' => 'string',
                    'description' => 'Why the dice are rolled, such as "Attack roll"',
                    'required' => false,
                ],
            ],
            category: 'gaming',
        );
    }

    public function getMCPCategory(): string
    {
        return 'gaming';
    }

    /** @param array{dice?: string, reason?: string} $arguments */
    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        $readText = static function (string $key) use ($arguments): ?string {
            $text = is_string($arguments[$key] ?? null) ? trim($arguments[$key]) : '';
            return $text === '' ? null : $text;
        };
        try {
            return new ToolResult($toolCallId, self::NAME, $this->roll($readText('dice'), $readText('reason')));
        } catch (ToolFailure $failure) {
            return new ToolResult(
                $toolCallId,
                self::NAME,
                $failure->result,
                false,
                $failure->getMessage(),
                $failure->errorCode,
            );
        }
    }

    /** @return array<string, mixed> */
    private function roll(?string $dice, ?string $reason): array
    {
        if ($this->client === null) {
            throw new ToolFailure('unavailable', 'Server not configured', ['error' => 'DMCP server URL not configured']);
        }
        if ($dice === null) {
            throw new ToolFailure('invalid_input', 'Missing required parameter: dice', ['error' => 'Dice notation is required']);
        }
        try {
            $response = $this->callRemote($this->client, $dice, $reason);
        } catch (\Throwable $exception) {
            $failure = ToolFailure::fromThrowable($exception);
            $result = ['error' => "Failed to execute: {$failure->getMessage()}"];
            throw new ToolFailure($failure->errorCode, $failure->getMessage(), $result);
        }
        if (is_array($response) && ($response['isError'] ?? null) === true) {
            throw new ToolFailure('internal_error', self::joinTextBlocks($response) ?? 'The MCP tool failed', $response);
        }
        return self::toHawkiResult(is_array($response) ? $response : [], $dice, $reason);
    }

    /** Calls the remote tool with the tool and argument names from the server entry. */
    private function callRemote(MCPSSEClient $client, string $dice, ?string $reason): mixed
    {
        $arguments = [];
        $remoteNames = $this->serverConfig['argument_names'] ?? [];
        foreach (array_filter(['dice' => $dice, 'reason' => $reason], is_string(...)) as $name => $value) {
            $remoteName = is_array($remoteNames) && array_key_exists($name, $remoteNames) ? $remoteNames[$name] : $name;
            if ($remoteName !== null && !is_string($remoteName)) {
                throw Failure::invalidInput("argument_names.$name must be a string or null");
            }
            if ($remoteName !== null) {
                $arguments[$remoteName] = $value;
            }
        }
        $remoteTool = $this->serverConfig['tool_name'] ?? null;
        return $client->callTool(is_string($remoteTool) ? $remoteTool : 'roll', $arguments);
    }

    /**
     * Returns the result in the form of HAWKI's own tool. HAWKI's demo server sends `total` at the top level;
     * current servers send `total` in `structuredContent` or in a JSON text block.
     *
     * @param array<string, mixed> $response
     *
     * @return array<string, mixed>
     */
    private static function toHawkiResult(array $response, string $dice, ?string $reason): array
    {
        $text = self::joinTextBlocks($response);
        $decodedText = $text === null ? null : json_decode($text, true, 128);
        $isJsonObject = is_array($decodedText) && str_starts_with(ltrim($text), '{');
        $structuredContent = is_array($response['structuredContent'] ?? null) ? $response['structuredContent'] : [];
        $findMember = static fn (string $key): mixed => $response[$key] ?? $structuredContent[$key] ?? ($isJsonObject ? $decodedText[$key] ?? null : null);
        $result = [
            'dice' => $dice,
            'result' => $findMember('result') ?? ($isJsonObject ? null : $text) ?? 'Unknown result',
            'total' => $findMember('total'),
            'rolls' => $findMember('rolls'),
        ];
        return $reason === null ? $result : $result + ['reason' => $reason];
    }

    /** @param array<string, mixed> $response */
    private static function joinTextBlocks(array $response): ?string
    {
        $texts = [];
        foreach (is_array($response['content'] ?? null) ? $response['content'] : [] as $block) {
            if (is_string($block['text'] ?? null)) {
                $texts[] = $block['text'];
            }
        }
        return $texts === [] ? null : implode("\n", $texts);
    }
}
