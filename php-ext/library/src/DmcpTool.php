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
                    'description' => 'Why they are rolled, such as "Attack roll"',
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
        $text = static function (string $key) use ($arguments): ?string {
            $text = is_string($arguments[$key] ?? null) ? trim($arguments[$key]) : '';
            return $text === '' ? null : $text;
        };
        try {
            return new ToolResult($toolCallId, self::NAME, $this->roll($text('dice'), $text('reason')));
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
            throw new ToolFailure('internal_error', self::text($response) ?? 'The MCP tool failed', $response);
        }
        return self::result(is_array($response) ? $response : [], $dice, $reason);
    }

    /** Calls the remote tool with the tool and argument names from the server entry. */
    private function callRemote(MCPSSEClient $client, string $dice, ?string $reason): mixed
    {
        $arguments = [];
        $names = $this->serverConfig['argument_names'] ?? [];
        foreach (array_filter(['dice' => $dice, 'reason' => $reason], is_string(...)) as $name => $value) {
            $remote = is_array($names) && array_key_exists($name, $names) ? $names[$name] : $name;
            if ($remote !== null && !is_string($remote)) {
                throw Failure::invalidInput("argument_names.$name must be a string or null");
            }
            if ($remote !== null) {
                $arguments[$remote] = $value;
            }
        }
        $tool = $this->serverConfig['tool_name'] ?? null;
        return $client->callTool(is_string($tool) ? $tool : 'roll', $arguments);
    }

    /**
     * Returns the result in the form of HAWKI's own tool. HAWKI's demo server sends `total` at the top level;
     * current servers send it in `structuredContent` or in a JSON text block.
     *
     * @param array<string, mixed> $response
     *
     * @return array<string, mixed>
     */
    private static function result(array $response, string $dice, ?string $reason): array
    {
        $text = self::text($response);
        $decoded = $text === null ? null : json_decode($text, true, 128);
        $isMap = is_array($decoded) && str_starts_with(ltrim($text), '{');
        $structured = is_array($response['structuredContent'] ?? null) ? $response['structuredContent'] : [];
        $find = static fn (string $key): mixed => $response[$key] ?? $structured[$key] ?? ($isMap ? $decoded[$key] ?? null : null);
        $result = [
            'dice' => $dice,
            'result' => $find('result') ?? ($isMap ? null : $text) ?? 'Unknown result',
            'total' => $find('total'),
            'rolls' => $find('rolls'),
        ];
        return $reason === null ? $result : $result + ['reason' => $reason];
    }

    /** @param array<string, mixed> $response */
    private static function text(array $response): ?string
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
