<?php

declare(strict_types=1);

/*
 * Tools of the official conformance suite that a worker can offer, as PHP tools of the sidecar:
 * php worker.php SOCKET. With --names, prints their names and exits.
 */

use Pillion\ToolDefinition;
use Pillion\Worker;
use Pillion\Worker\Call;

require __DIR__ . '/../../php-ext/library/autoload.php';

const IMAGE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const AUDIO = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';
const NO_ARGUMENTS = ['type' => 'object', 'properties' => []];

/** Returns MCP content blocks. */
$content = static fn (array ...$blocks): array => ['content' => $blocks];
$text = static fn (string $text): array => ['type' => 'text', 'text' => $text];
$image = ['type' => 'image', 'data' => IMAGE, 'mimeType' => 'image/png'];
$resource = static fn (string $uri, string $type, string $text): array => [
    'type' => 'resource',
    'resource' => ['uri' => $uri, 'mimeType' => $type, 'text' => $text],
];

$tools = [
    'test_simple_text' => ['Answers with text', NO_ARGUMENTS, static fn (): string
        => 'This is a simple text response for testing.'],
    'test_image_content' => ['Answers with an image', NO_ARGUMENTS, static fn (): array => $content($image)],
    'test_audio_content' => ['Answers with audio', NO_ARGUMENTS, static fn (): array
        => $content(['type' => 'audio', 'data' => AUDIO, 'mimeType' => 'audio/wav'])],
    'test_embedded_resource' => ['Answers with a resource', NO_ARGUMENTS, static fn (): array
        => $content($resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'))],
    'test_multiple_content_types' => ['Answers with several kinds of content', NO_ARGUMENTS, static fn (): array => $content(
        $text('Multiple content types test:'),
        $image,
        $resource('test://mixed-content-resource', 'application/json', '{"test": "data", "value": 123}'),
    )],
    'test_tool_with_progress' => ['Says how far it is', NO_ARGUMENTS, static function (): string {
        foreach ([0, 50, 100] as $step) {
            Call::current()?->progress($step, 100, "Completed step $step of 100");
            usleep(50_000);
        }
        return 'done';
    }],
    'test_error_handling' => ['Fails', NO_ARGUMENTS, static function (): never {
        throw new RuntimeException('This tool intentionally returns an error for testing');
    }],
    'test_x_mcp_header' => ['Has an argument that clients mirror into a header', [
        'type' => 'object',
        'properties' => ['region' => ['type' => 'string', 'default' => '<none>', 'x-mcp-header' => 'Region']],
    ], static fn (array $arguments): string => "region={$arguments['region']}"],
    'json_schema_2020_12_tool' => ['Has a schema with keywords of JSON Schema 2020-12', [
        '$schema' => 'https://json-schema.org/draft/2020-12/schema',
        'type' => 'object',
        '$defs' => ['address' => [
            '$anchor' => 'addressDef',
            'type' => 'object',
            'properties' => ['street' => ['type' => 'string'], 'city' => ['type' => 'string']],
        ]],
        'properties' => [
            'name' => ['type' => 'string'],
            'address' => ['$ref' => '#/$defs/address'],
            'contactMethod' => ['type' => 'string', 'enum' => ['phone', 'email']],
            'phone' => ['type' => 'string'],
            'email' => ['type' => 'string'],
        ],
        'allOf' => [['anyOf' => [['required' => ['phone']], ['required' => ['email']]]]],
        'if' => ['properties' => ['contactMethod' => ['const' => 'phone']], 'required' => ['contactMethod']],
        'then' => ['required' => ['phone']],
        'else' => ['required' => ['email']],
        'additionalProperties' => false,
    ], static fn (): string => 'json_schema_2020_12_tool'],
];

if ($argv[1] === '--names') {
    echo implode(',', array_keys($tools)), "\n";
    exit;
}
$worker = new Worker($argv[1], 'conformance');
foreach ($tools as $name => [$description, $parameters, $handler]) {
    $worker->add(new ToolDefinition(name: $name, description: $description, parameters: $parameters), $handler);
}
$worker->setLogger(new class () {
    /** @param array<string, mixed> $context */
    public function log(string $level, string $message, array $context): void
    {
        fwrite(STDERR, "$level: $message\n");
    }
});
$worker->run();
