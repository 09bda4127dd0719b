<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\CancellationToken;
use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\EventSource;
use Pillion\Fallback\Http\Request;
use Pillion\Fallback\Http\Response;
use Pillion\Fallback\Http\TransportErrors;
use Pillion\Fallback\Http\Transports;

/**
 * A client for the REST API of the sidecar. Response bodies are returned as JSON trees (see {@see
 * Json}).
 *
 * @internal
 */
final class SidecarApi
{
    private const APPROVAL_FILTERS = ['status', 'tool', 'user', 'limit', 'after'];
    private const TOOLS_PATH = '/api/v1/tools/';

    /** @param float $timeout timeout of one request, in seconds */
    public function __construct(
        private readonly string $socketPath,
        private readonly float $timeout,
        private readonly ?CancellationToken $cancellation = null,
    ) {
    }

    public function health(): \stdClass
    {
        return $this->send(new Request('/healthz'));
    }

    /**
     * Returns the response of the route `tools` or `schemas`. The field with the name of the route
     * contains a list of objects.
     */
    public function list(string $field, ?string $category = null, ?Context $context = null): \stdClass
    {
        $query = $category === null ? '' : '?category=' . rawurlencode($category);
        $body = $this->send(new Request(self::TOOLS_PATH . ($field === 'tools' ? '' : $field) . $query, $context?->headers() ?? []));
        self::readObjects($body, $field);
        return $body;
    }

    /**
     * Checks the schemas of tools.
     *
     * @param list<array{name: string, inputSchema: \stdClass}> $tools
     *
     * @throws \Pillion\Exception\InvalidInputException naming the first tool with an invalid schema
     */
    public function checkSchemas(array $tools): void
    {
        $this->send(new Request('/api/v1/schemas/check', [], Json::encode(['tools' => $tools])));
    }

    /**
     * Converts tool definitions, calls, texts, messages or results to or from the format of a model
     * provider.
     *
     * @param 'tools'|'tool-calls'|'text'|'messages'|'results' $route
     * @param string                                           $body JSON
     *
     * @throws \Pillion\Exception\InvalidInputException when the provider is unknown, or the body is not valid for the provider
     */
    public function format(string $route, string $provider, string $body): \stdClass
    {
        return $this->send(new Request("/api/v1/formats/$route?provider=" . rawurlencode($provider), [], $body));
    }

    /**
     * @param array<array-key, mixed> $filter
     *
     * @return list<\stdClass>
     */
    public function approvals(array $filter): array
    {
        $parameters = [];
        foreach ($filter as $key => $value) {
            if (!in_array($key, self::APPROVAL_FILTERS, true)) {
                $knownFilters = implode(', ', self::APPROVAL_FILTERS);
                throw Failure::invalidInput("Unknown filter '$key': expected one of $knownFilters");
            }
            $parameters[$key] = match (true) {
                is_string($value) => $value,
                is_int($value), is_float($value) => Json::encode($value),
                default => throw Failure::invalidInput("The filter '$key' must be a string"),
            };
        }
        $query = http_build_query($parameters, '', '&', PHP_QUERY_RFC3986);
        $body = $this->send(new Request('/api/v1/approvals/' . ($query === '' ? '' : "?$query")));
        return self::readObjects($body, 'approvals');
    }

    /**
     * @param 'approve'|'deny'          $decision
     * @param ?array<string, mixed>     $arguments arguments that replace the call's original arguments
     */
    public function decide(string $approvalId, string $decision, ?string $reason, ?array $arguments = null): \stdClass
    {
        $path = '/api/v1/approvals/' . str_replace('.', '%2E', rawurlencode($approvalId)) . "/$decision";
        $members = array_filter(['reason' => $reason], is_string(...));
        if ($arguments !== null) {
            $tree = Json::toTree($arguments, 'argument $arguments');
            if (is_array($tree) && $tree !== []) {
                throw Failure::invalidInput('$arguments must be an array with string keys');
            }
            $members['arguments'] = (object) $tree;
        }
        $approval = $this->send(new Request($path, [], Json::encode((object) $members)))->approval ?? null;
        return $approval instanceof \stdClass ? $approval : throw Failure::transport("The sidecar's response has no approval");
    }

    /** @return list<\stdClass> */
    private static function readObjects(\stdClass $body, string $field): array
    {
        $entries = $body->$field ?? null;
        if (!is_array($entries)) {
            throw Failure::transport("The sidecar's response has no list '$field'");
        }
        foreach ($entries as $entry) {
            if (!$entry instanceof \stdClass) {
                throw Failure::transport("The sidecar's list '$field' has an entry that is not an object");
            }
        }
        return $entries;
    }

    /** Runs one tool; `$arguments` is JSON. */
    public function execute(string $name, string $arguments, Context $context): CallResponse
    {
        $outcome = $this->executeAll([[$name, $arguments, $this->timeout]], $context)[0];
        return $outcome instanceof CallResponse ? $outcome : throw $outcome;
    }

    /**
     * Runs tools concurrently, each in its own request with its own timeout.
     *
     * @param array<int, array{string, string, float}> $calls the name of the tool, the arguments as JSON, and the
     *                                                        timeout in seconds
     *
     * @return array<int, CallResponse|PillionException> with the keys of `$calls`
     */
    public function executeAll(array $calls, Context $context): array
    {
        $headers = $context->headers();
        $exchanges = array_map(function (array $call) use ($headers): array {
            [$name, $arguments, $seconds] = $call;
            // Dots in a tool's name are percent-encoded, because `..` would change the path of the
            // URL.
            $path = self::TOOLS_PATH . 'execute/' . str_replace('.', '%2E', rawurlencode($name));
            return [new Request($path, $headers, $arguments), new Deadline($seconds, $this->cancellation)];
        }, $calls);
        try {
            $outcomes = Transports::forPath($this->socketPath)->sendAll($exchanges);
        } catch (UnavailableException $exception) {
            return array_map(static fn (): UnavailableException => $exception, $calls);
        }
        $responses = [];
        foreach ($outcomes as $key => $outcome) {
            try {
                $responses[$key] = match (true) {
                    $outcome instanceof Response => CallResponse::parse(self::parseBody($outcome)),
                    $outcome instanceof TimeoutException => TransportErrors::toolTimeout([$calls[$key][0]], $calls[$key][2]),
                    default => $outcome,
                };
            } catch (PillionException $exception) {
                $responses[$key] = $exception;
            }
        }
        return $responses;
    }

    /**
     * Runs calls in one request.
     *
     * @param list<string>            $calls      each call as JSON
     * @param list<string>            $toolNames  the name of each call's tool
     * @param 'parallel'|'sequential' $mode
     * @param ?string $indexRange the range of the calls' indices if the batch takes several
     *                                            requests; the range makes the idempotency key
     *                                            of each request unique
     *
     * @return list<CallResponse>|RejectedRequest in the order of the calls
     *
     * @throws PillionException when the sidecar does not respond
     */
    public function executeBatch(array $calls, array $toolNames, string $mode, Context $context, ?string $indexRange): array|RejectedRequest
    {
        $body = '{"calls":[' . implode(',', $calls) . "],\"mode\":\"$mode\"}";
        $headers = $context->headers();
        if ($indexRange !== null && isset($headers['idempotency-key'])) {
            $headers['idempotency-key'] = preg_replace('/("?)$/D', ".$indexRange$1", $headers['idempotency-key'], 1);
        }
        $request = new Request(self::TOOLS_PATH . 'batch-execute', $headers, $body);
        try {
            $response = $this->sendRequest($request);
        } catch (TimeoutException) {
            throw TransportErrors::toolTimeout($toolNames, $this->timeout);
        }
        try {
            $results = self::parseBody($response)->results ?? null;
            if (!is_array($results) || count($results) !== count($calls)) {
                throw Failure::transport("The sidecar's response has no list 'results' with one result for each call");
            }
        } catch (PillionException $exception) {
            return new RejectedRequest($exception, $exception instanceof TransportException ? 0 : $response->status);
        }
        return array_map(CallResponse::parse(...), $results);
    }

    /**
     * Starts or resumes a chat and waits for the response.
     *
     * @param array<string, mixed> $request
     */
    public function chat(?string $id, array $request, Context $context): \stdClass
    {
        return $this->send(self::createChatRequest($id, $request, $context));
    }

    /**
     * Starts or resumes a chat like {@see chat()} and returns its events as they arrive.
     *
     * @param array<string, mixed> $request
     */
    public function openChatEvents(?string $id, array $request, Context $context): EventSource
    {
        $deadline = new Deadline($this->timeout, $this->cancellation);
        $events = EventSource::open($this->socketPath, self::createChatRequest($id, $request, $context), $deadline);
        if ($events->status() !== 200) {
            self::parseBody($events->readRejectedResponse());
        }
        return $events;
    }

    /** @param array<string, mixed> $request */
    private static function createChatRequest(?string $id, array $request, Context $context): Request
    {
        $path = '/api/v1/chat/' . str_replace('.', '%2E', rawurlencode($id ?? ''));
        return new Request($path, $context->headers(), Json::encode($request === [] ? new \stdClass() : $request));
    }

    /** Returns the body of the response; throws an exception unless the status is 200. */
    private function send(Request $request): \stdClass
    {
        return self::parseBody($this->sendRequest($request));
    }

    private function sendRequest(Request $request): Response
    {
        return Transports::forPath($this->socketPath)->send($request, new Deadline($this->timeout, $this->cancellation));
    }

    private static function parseBody(Response $response): \stdClass
    {
        try {
            $body = Json::parse($response->body);
        } catch (\JsonException $exception) {
            throw Failure::transport(
                "The sidecar's response (HTTP status $response->status) is not the expected JSON: {$exception->getMessage()}",
                $response->status,
            );
        }
        if (!$body instanceof \stdClass) {
            throw Failure::transport("The sidecar's response (HTTP status $response->status) is not a JSON object", $response->status);
        }
        if ($response->status === 200) {
            return $body;
        }
        if (!is_string($body->error ?? null) || !is_string($body->error_code ?? null)) {
            throw Failure::transport("The sidecar answered with HTTP status $response->status", $response->status);
        }
        throw Failure::forCode($body->error_code, $body->error);
    }
}
