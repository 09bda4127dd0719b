<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\Request;
use Pillion\Fallback\Http\Transports;

/**
 * The routes of the sidecar; its answers as trees.
 *
 * @internal
 */
final class SidecarApi
{
    private const TOOLS = '/api/v1/tools/';

    /** @param float $timeout seconds for one request */
    public function __construct(private readonly string $socketPath, private readonly float $timeout)
    {
    }

    public function health(): \stdClass
    {
        return $this->send(new Request('/healthz'));
    }

    /** The body of a list: `tools`, `schemas`. Its field of that name is a list of objects. */
    public function list(string $field, ?string $category = null): \stdClass
    {
        $query = $category === null ? '' : '?category=' . rawurlencode($category);
        $body = $this->send(new Request(self::TOOLS . ($field === 'tools' ? '' : $field) . $query));
        $list = $body->$field ?? null;
        if (!is_array($list)) {
            throw Failure::transport("The sidecar's answer has no list '$field'");
        }
        foreach ($list as $entry) {
            if (!$entry instanceof \stdClass) {
                throw Failure::transport("The sidecar's list '$field' has an entry that is no object");
            }
        }
        return $body;
    }

    /** Runs one tool; `$arguments` is JSON. */
    public function execute(string $name, string $arguments, Context $context): Answer
    {
        // A dot would be a step to another path.
        $path = self::TOOLS . 'execute/' . str_replace('.', '%2E', rawurlencode($name));
        return Answer::of(Json::arrays($this->send(new Request($path, $context->headers(), $arguments))));
    }

    /**
     * Runs calls in one request.
     *
     * @param list<\Pillion\ToolCall> $calls
     * @param 'parallel'|'sequential' $mode
     *
     * @return list<\Pillion\ToolResult> in the order of the calls
     */
    public function batch(array $calls, string $mode, Context $context): array
    {
        $body = Json::encode([
            'calls' => array_map(static fn (\Pillion\ToolCall $call): array => [
                'id' => $call->id,
                'name' => $call->name,
                'arguments' => $call->arguments === [] ? new \stdClass() : $call->arguments,
            ], $calls),
            'mode' => $mode,
        ]);
        $answer = $this->send(new Request(self::TOOLS . 'batch-execute', $context->headers(), $body));
        $results = Json::arrays($answer->results ?? null);
        if (!is_array($results) || !array_is_list($results) || count($results) !== count($calls)) {
            throw Failure::transport("The sidecar's answer has no result for each call");
        }
        return array_map(
            static fn (\Pillion\ToolCall $call, mixed $result): \Pillion\ToolResult => Answer::of($result)->toResult($call->id, $call->name),
            $calls,
            $results,
        );
    }

    /** The body of an answer with status 200. */
    private function send(Request $request): \stdClass
    {
        $response = Transports::to($this->socketPath)->send($request, new Deadline($this->timeout));
        try {
            $body = Json::parse($response->body);
        } catch (\JsonException $e) {
            throw Failure::transport(
                "The sidecar's answer (HTTP status $response->status) is not the JSON it should be: {$e->getMessage()}",
                $response->status,
            );
        }
        if (!$body instanceof \stdClass) {
            throw Failure::transport("The sidecar's answer (HTTP status $response->status) is no JSON object", $response->status);
        }
        if ($response->status === 200) {
            return $body;
        }
        if (!is_string($body->error ?? null) || !is_string($body->error_code ?? null)) {
            throw Failure::transport("The sidecar answered with HTTP status $response->status", $response->status);
        }
        throw Failure::ofCode($body->error_code, $body->error);
    }
}
