<?php

declare(strict_types=1);

namespace Pillion\Tests;

use PHPUnit\Framework\TestCase;

/**
 * The library, the Laravel package and the extension read settings from one place: a second reader of the environment
 * would not know what an application has configured, or read nothing at all where the configuration is cached.
 */
final class EnvironmentTest extends TestCase
{
    private const ROOT = __DIR__ . '/../../';

    /** The files that may read the environment, and the names by which they do. */
    private const READERS = [
        'library/src/Fallback/SocketPath.php' => ['getenv'],
        'laravel/config/pillion.php' => ['env'],
        // Names of variables are part of the settings of built-in services (docs/reference/built-in-tools.md).
        'src/classes/tool_registry/services.rs' => ['std::env'],
    ];

    private const FUNCTIONS = ['getenv', 'putenv', 'env', 'apache_getenv', 'apache_setenv', 'get_cfg_var', 'ini_get', 'ini_get_all', 'ini_set', 'phpinfo', 'filter_input'];

    public function testOnlyOneFileReadsTheEnvironment(): void
    {
        $readers = [];
        foreach (['library/src', 'library/autoload.php', 'laravel/src', 'laravel/config', 'laravel/database', 'src'] as $path) {
            foreach (self::files(self::ROOT . $path) as $file) {
                $names = str_ends_with($file, '.rs') ? self::namesInRust($file) : self::namesInPhp($file);
                if ($names !== []) {
                    $readers[substr($file, strlen(self::ROOT))] = $names;
                }
            }
        }
        self::assertEquals(self::READERS, $readers);
    }

    public function testEveryReaderIsFound(): void
    {
        $file = tempnam(sys_get_temp_dir(), 'pillion');
        file_put_contents($file, <<<'PHP'
            <?php
            // getenv('IN_A_COMMENT'), $_ENV
            $a = getenv('A') . \GetEnv('B') . $_ENV['C'] . $_SERVER['D'] . $_SERVER['argv'][0];
            $b = Illuminate\Support\Env::get('E') . env('F') . $object->env('G') . Other::getenv('H') . 'getenv("I")';
            PHP);
        try {
            self::assertSame(['getenv', '$_ENV', '$_SERVER', 'Env::', 'env'], self::namesInPhp($file));
        } finally {
            unlink($file);
        }
    }

    /** @return list<string> */
    private static function files(string $path): array
    {
        if (is_file($path)) {
            return [$path];
        }
        $files = [];
        foreach (new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator($path, \FilesystemIterator::SKIP_DOTS)) as $file) {
            if (in_array($file->getExtension(), ['php', 'rs'], true)) {
                $files[] = $file->getPathname();
            }
        }
        return $files;
    }

    /** @return list<string> the functions and variables with the environment or with ini settings */
    private static function namesInPhp(string $file): array
    {
        $isCode = fn (\PhpToken $token): bool => !$token->isIgnorable();
        $tokens = array_values(array_filter(\PhpToken::tokenize((string) file_get_contents($file)), $isCode));
        $names = [];
        foreach ($tokens as $index => $token) {
            $next = $tokens[$index + 1]->text ?? '';
            $before = $tokens[$index - 1]->text ?? '';
            $name = strtolower(ltrim($token->text, '\\'));
            $isCall = $token->is([T_STRING, T_NAME_FULLY_QUALIFIED]) && $next === '(' && !in_array($before, ['->', '?->', '::', 'function', 'new'], true);
            if ($isCall && in_array($name, self::FUNCTIONS, true)) {
                $names[] = $name;
            } elseif ($token->text === '$_ENV' || ($token->text === '$_SERVER' && ($tokens[$index + 2]->text ?? '') !== "'argv'")) {
                $names[] = $token->text;
            } elseif ($next === '::' && preg_match('/(^|\\\\)Env$/', $token->text) === 1) {
                $names[] = 'Env::';
            }
        }
        return array_values(array_unique($names));
    }

    /** @return list<string> */
    private static function namesInRust(string $file): array
    {
        return preg_match('~^(?!\s*//).*\bstd::env\b~m', (string) file_get_contents($file)) === 1 ? ['std::env'] : [];
    }
}
